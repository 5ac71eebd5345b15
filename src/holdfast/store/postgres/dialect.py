"""What PostgreSQL does in a way of its own: whole verbs in one statement, numbering of the feed."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Status, Task
from holdfast.store import plain
from holdfast.store.claims import Claim, Claimed
from holdfast.store.script import Script, call, call_rows


class PostgresDialect:
    """See `holdfast.store.port.Dialect`."""

    __slots__ = ()

    def record(
        self, *, batch: int, now: float, facts_json: str, facts_count: int, deltas_json: str
    ) -> Script[None]:
        yield call(
            "record_facts",
            batch=str(batch),
            now=now,
            facts_json=facts_json,
            facts_count=facts_count,
            deltas_json=deltas_json,
        )

    def number(self) -> Script[None]:
        unread = yield call("has_unread")
        if unread[0][0]:
            yield call("lock_head")
            yield call("number_records")

    def fold(self) -> Script[None]:
        yield call("count_records")

    def hint(self, text: str) -> Script[None]:
        if text:
            yield call("hint", hint=text)

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, batch: int, hint: str
    ) -> Script[set[str]]:
        rows = [
            (*plain.insert_row(submission), nth, plain.enqueued_json(submission, now))
            for nth, submission in enumerate(group)
        ]
        inserted = yield call_rows("insert_plain", rows, now=now, batch=str(batch), hint=hint)
        return {row[0] for row in inserted}

    def claim(self, claim: Claim, *, now: float, batch: int) -> Script[tuple[Claimed, list[Task]]]:
        tasks: list[Task] = yield call(
            "claim_plain",
            queues=claim.queues,
            types=claim.types,
            limit=claim.limit,
            now=now,
            node=claim.node,
            lease_seconds=claim.lease_seconds,
            batch=str(batch),
        )
        taken = [task for task in tasks if task.status is Status.RUNNING]
        limited = [task for task in tasks if task.status is not Status.RUNNING]
        return Claimed(taken), limited

    def pick_aged(self, claim: Claim, *, now: float, ageing_seconds: float) -> Script[list[Task]]:
        tasks: list[Task] = yield call(
            "pick_aged",
            queues=claim.queues,
            types=claim.types,
            limit=claim.limit,
            now=now,
            ageing_seconds=ageing_seconds,
        )
        return tasks

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, batch: int
    ) -> Script[set[str]]:
        rows = [(*plain.complete_row(each), plain.fact_json(each)) for each in done]
        written = yield call_rows("complete_plain", rows, now=now, batch=str(batch))
        return {row[0] for row in written}
