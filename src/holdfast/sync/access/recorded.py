"""What the gateway writes beside an act: its audit row, and its answer for a repeat of the request.

Promises: both are in the transaction of the act. A request whose key was answered before changes nothing:
`Replayed` carries the stored answer. A refused act has no audit row and no stored answer: its repeat is
judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core import codec, ledger as rules
from holdfast.core.audit import AuditEntry
from holdfast.core.event import NewEvent
from holdfast.core.ledger import Answered, Clash, EntryKey, EntryLease, EntryRequest
from holdfast.core.task import Task
from holdfast.store.beside import Beside
from holdfast.store.script import Script, call
from holdfast.store.scripts import audit, ledger
from holdfast.store.store import Inserted

ANSWER_SECONDS: Final = 72 * 3600.0
"""How long the answer to a key is kept."""
BUSY_SECONDS: Final = 30.0
LOADED_MAX: Final = 10
"""Tasks of a batch that are read for the answer."""
MakeEntries = Callable[[object, float], Sequence[AuditEntry]]
MakeAnswer = Callable[[object], codec.Json]


class Replayed(Exception):
    """The request was answered before. `answer` is what `MakeAnswer` returned then."""

    def __init__(self, answer: codec.Json) -> None:
        super().__init__("the request was answered before")
        self.answer = answer


class Repeatable:
    """A request with an Idempotency-Key. It serves one act."""

    is_undone = False
    """Whether `end` undoes the act."""

    def __init__(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        owner: str,
        *,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._ask = EntryRequest(
            entry_key=EntryKey(scope, operation, key),
            fingerprint=rules.fingerprint_of(request),
            owner=owner,
            lease_seconds=BUSY_SECONDS,
            retention_seconds=answer_seconds,
        )
        self._lease: EntryLease | None = None

    def begin(self, now: float) -> Script[None]:
        """Starts the entry of the key. `Replayed` if it has an answer."""
        verdict = yield from ledger.begin(self._ask, now, in_tx=True)
        if isinstance(verdict, Answered):
            raise Replayed(rules.answer(verdict.outcome))
        self._lease = rules.started(verdict)

    def hold(self, now: float) -> Script[None]:
        """Like `begin`, for an act of several transactions: others wait `BUSY_SECONDS` for its end."""
        verdict = yield from ledger.begin(self._ask, now)
        if isinstance(verdict, Answered):
            raise Replayed(rules.answer(verdict.outcome))
        self._lease = rules.started(verdict)

    def look(self, now: float) -> Script[None]:
        """`Replayed` if the key has an answer, IdempotencyConflict if it is of another request; else nothing.
        It starts no entry: this request may have given its own up."""
        entry = yield from ledger.get(self._ask.entry_key)
        verdict = None if entry is None else rules.begin(entry, self._ask, now)
        if isinstance(verdict, Answered):
            raise Replayed(rules.answer(verdict.outcome))
        if isinstance(verdict, Clash):
            rules.started(verdict)

    def end(self, answer: codec.Json, now: float) -> Script[None]:
        """Stores the answer."""
        assert self._lease is not None, "begin runs first"
        yield from ledger.end(self._lease, rules.done(answer), now)

    def give_up(self, now: float) -> Script[None]:
        """Ends the entry without an answer."""
        assert self._lease is not None, "begin runs first"
        yield from ledger.end(self._lease, None, now)


class RecordedInsert(Beside):
    """The answer to an enqueue, made from the tasks as they were inserted, or as they were there before. A
    large batch gets no tasks."""

    __slots__ = ("_answer", "_entries", "_repeatable")

    def __init__(
        self,
        answer: Callable[[list[Inserted], dict[str, Task]], codec.Json],
        *,
        repeatable: Repeatable | None = None,
        entries: MakeEntries | None = None,
    ) -> None:
        self._answer = answer
        self._repeatable = repeatable
        self._entries = entries

    @property
    def is_undone(self) -> bool:
        return self._repeatable is not None and self._repeatable.is_undone

    def before(self, now: float) -> Script[None]:
        if self._repeatable is not None:
            yield from self._repeatable.begin(now)

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        assert isinstance(outcome, list)
        if self._repeatable is not None:
            ids = [answer.task_id for answer in outcome] if len(outcome) <= LOADED_MAX else []
            tasks: list[Task] = yield call("get_tasks", ids=ids)
            answer = self._answer(outcome, {task.id: task for task in tasks})
            yield from self._repeatable.end(answer, now)
        if self._entries is not None:
            yield from audit.append(self._entries(outcome, now))
        return ()


class Recorded(Beside):
    """The audit rows of an act, and its answer. `entries` returns none for an act that changed nothing."""

    __slots__ = ("_answer", "_entries", "_repeatable")

    def __init__(
        self,
        entries: MakeEntries,
        *,
        repeatable: Repeatable | None = None,
        answer: MakeAnswer | None = None,
    ) -> None:
        self._entries = entries
        self._repeatable = repeatable
        self._answer = answer

    @property
    def is_undone(self) -> bool:
        return self._repeatable is not None and self._repeatable.is_undone

    def before(self, now: float) -> Script[None]:
        if self._repeatable is not None:
            yield from self._repeatable.begin(now)

    def after(self, outcome: object, now: float) -> Script[Sequence[NewEvent]]:
        answer = None if self._answer is None else self._answer(outcome)
        if self._repeatable is not None:
            if answer is None:
                yield from self._repeatable.give_up(now)
            else:
                yield from self._repeatable.end(answer, now)
        entries = self._entries(outcome, now)
        if entries:
            yield from audit.append(entries)
        return ()
