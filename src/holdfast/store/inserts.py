"""Inserts on the general path: tasks with dependencies, limits, an idempotency key or a given id.

Promises: an acknowledged insert is durable with its events. A request whose answer was lost may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.group import NewGroup
from holdfast.core.submit import Submission
from holdfast.errors import StoreBusy
from holdfast.store.access import Access
from holdfast.store.beside import Beside, begin, end
from holdfast.store.links import LinkStore
from holdfast.store.port import RowHeld
from holdfast.store.script import Script
from holdfast.store.scripts import groups, insert as scripts
from holdfast.store.scripts.insert import Inserted


async def insert(
    access: Access,
    links: LinkStore,
    group: Sequence[Submission],
    *,
    hint: str = "",
    beside: Beside | None = None,
    into: NewGroup | None = None,
) -> list[Inserted]:
    """Inserts all tasks of a caller, or none."""
    now = access.now()
    unlinked = scripts.may_wait(group) and _is_unlinked(access, group)
    try:
        inserted = await access.write(
            lambda: _insert(
                access, group, now, hint=hint, unlinked=unlinked, beside=beside, into=into
            )
        )
    except RowHeld as error:
        if not scripts.may_wait(group):
            raise
        raise _held_up(group, error) from error
    return await links.link_new(group, inserted) if unlinked else inserted


async def insert_in_tx(
    access: Access,
    connection: object,
    group: Sequence[Submission],
    *,
    hint: str,
    into: NewGroup | None = None,
) -> list[Inserted]:
    """Inserts in the caller's transaction, without locking rows that others need. After its commit
    `LinkStore.link` is due if any task has dependencies."""
    now = access.now()
    unlinked = _is_unlinked(access, group)
    return await access.driver.run_in_tx(
        connection,
        lambda: _insert(access, group, now, hint=hint, in_tx=True, unlinked=unlinked, into=into),
        may_clash=scripts.may_wait(group),
    )


def _is_unlinked(access: Access, group: Sequence[Submission]) -> bool:
    """Whether edges must not lock parents. With one writer no other transaction waits for them."""
    return not access.dialect.one_writer and any(submission.edges for submission in group)


def _insert(
    access: Access,
    group: Sequence[Submission],
    now: float,
    *,
    hint: str,
    in_tx: bool = False,
    unlinked: bool = False,
    beside: Beside | None = None,
    into: NewGroup | None = None,
) -> Script[list[Inserted]]:
    yield from begin(beside, now)
    answers: dict[str, Inserted] = {}
    if into is not None:
        answers = yield from groups.add(into, group, now)
    asked = [each for each in group if each.task.id not in answers] if answers else group
    new = yield from scripts.insert(
        asked,
        now=now,
        record_id=access.ids.record(now),
        recorder=access.dialect,
        in_tx=in_tx,
        unlinked=unlinked,
    )
    if answers:
        answers |= {each.task.id: answer for each, answer in zip(asked, new, strict=True)}
    inserted = [answers[each.task.id] for each in group] if answers else new
    if into is not None:
        yield from groups.add_members(into, inserted)
    events = yield from end(beside, inserted, now)
    assert not events, "an insert takes no further events"
    yield from access.dialect.hint(hint)
    return inserted


def _held_up(group: Sequence[Submission], error: RowHeld) -> StoreBusy:
    keys = sorted(
        {s.task.idempotency_key or s.task.id for s in group if s.task.request_hash or s.unique}
    )
    return StoreBusy(
        "another transaction is open and has inserted the same idempotency key, unique window or task id (of "
        f"{', '.join(keys[:3])}): nothing was changed; try again when it has ended ({error.__cause__})"
    )
