"""`holdfast dlq replay|discard|edit`: changing dead letters.

Promises: a change by filter needs a confirmation first; `--dry-run` only counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import with_operations
from holdfast.cli.commands.changes import Chosen, change_each
from holdfast.cli.commands.dlq import full_fingerprint
from holdfast.cli.commands.task import whole
from holdfast.cli.confirm import confirmed
from holdfast.cli.ids import find_task
from holdfast.cli.operations import Operations
from holdfast.cli.options import (
    COMMON,
    Common,
    DryRun,
    ExpectVersion,
    Flag,
    Patch,
    Query,
    Reason,
    TaskId,
    TaskIds,
    Yes,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.cli.session import by
from holdfast.core import edits
from holdfast.core.codec import dumps
from holdfast.core.task import Status, Task
from holdfast.queue.dead_letters import DeadFilter
from holdfast.remote.dead_letters import RemoteDeadLetters

Bulk = Callable[[RemoteDeadLetters, DeadFilter, int | None, bool], Awaitable[int]]
"""Ids, filter, limit, and whether to count only."""
ByType: TypeAlias = Annotated[str | None, Parameter(help="All of this type.")]
ByQueue: TypeAlias = Annotated[str | None, Parameter(help="All of this queue.")]
ByGroup: TypeAlias = Annotated[str | None, Parameter(help="All of this group (dlq groups).")]
All: TypeAlias = Annotated[Flag, Parameter(name="--all", help="All dead letters.")]
AtMost: TypeAlias = Annotated[
    int | None, Parameter(name=("--limit", "-n"), help="At most this many.")
]
DEAD_LETTERS: Final = "dead-letters"


def replay(
    *ids: TaskIds,
    type: ByType = None,
    queue: ByQueue = None,
    fingerprint: ByGroup = None,
    all_: All = False,
    query: Query = None,
    limit: AtMost = None,
    rate: Annotated[float | None, Parameter(help="At most this many starts per second.")] = None,
    delay: Annotated[str, Parameter(help="Not before: 30s, 5m, 2h.")] = "0",
    json: Annotated[str | None, Parameter(help="Another payload, as JSON; - reads stdin.")] = None,
    patch: Patch = None,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> int:
    """Give dead letters new attempts; dependents that failed with them wait for them again."""
    wait = values.seconds(delay, "--delay")
    fields = None if patch is None else values.patch(patch)
    if fields is not None and json is not None:
        raise Usage("--json is a whole payload and --patch changes the one that is there: use one")
    if not ids and query is None:
        if json is not None or wait:
            raise Usage("--json and --delay are for single ids: name the dead letters")
        which = _filter(type, queue, fingerprint, all_)

        async def replay_all(
            letters: RemoteDeadLetters, which: DeadFilter, limit: int | None, dry_run: bool
        ) -> int:
            return await letters.replay_all(
                which, by(reason), rate=rate, limit=limit, patch=fields, dry_run=dry_run
            )

        return _bulk(
            common, which, replay_all, ("replay", "replayed"), limit=limit, dry_run=dry_run, yes=yes
        )
    _refuse_filter(type, queue, fingerprint, all_, limit, rate)
    payload = msgspec.UNSET if json is None else values.payload((), json)

    async def change(operations: Operations, task: Task) -> Task:
        letters = operations.dead_letters
        if query is not None and task.status is Status.BLOCKED:
            return task  # It has come back with its parent, and waits for it.
        letter = await letters.get(task.id)
        who = by(reason, expect_version)
        return await letters.replay(letter.id, who, payload=payload, patch=fields, delay=wait)

    return change_each(
        common,
        ids,
        change,
        "queued again",
        expect_version=expect_version,
        dry_run=dry_run,
        chosen=Chosen(query, yes, DEAD_LETTERS),
    )


def discard(
    *ids: TaskIds,
    type: ByType = None,
    queue: ByQueue = None,
    fingerprint: ByGroup = None,
    all_: All = False,
    query: Query = None,
    limit: AtMost = None,
    reason: Reason = "discarded",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> int:
    """End dead letters for good: they become aborted and cannot be replayed."""
    if not ids and query is None:
        which = _filter(type, queue, fingerprint, all_)

        async def discard_all(
            letters: RemoteDeadLetters, which: DeadFilter, limit: int | None, dry_run: bool
        ) -> int:
            return await letters.discard_all(which, by(reason), limit=limit, dry_run=dry_run)

        return _bulk(
            common,
            which,
            discard_all,
            ("discard", "discarded"),
            limit=limit,
            dry_run=dry_run,
            yes=yes,
        )
    _refuse_filter(type, queue, fingerprint, all_, limit, None)

    async def change(operations: Operations, task: Task) -> Task:
        return await operations.dead_letters.discard(task.id, by(reason, expect_version))

    return change_each(
        common,
        ids,
        change,
        "discarded",
        expect_version=expect_version,
        dry_run=dry_run,
        chosen=Chosen(query, yes, DEAD_LETTERS),
    )


def edit(
    task_id: TaskId,
    /,
    *pairs: Annotated[str, Parameter(help="Fields to change, as key=value.")],
    json: Annotated[
        str | None, Parameter(help="The whole new payload as JSON; - reads stdin.")
    ] = None,
    replace: Annotated[Flag, Parameter(help="The pairs are the whole new payload.")] = False,
    metadata: Annotated[
        tuple[str, ...],
        Parameter(
            ("--metadata", "--meta"),
            help="A field of the metadata as key=value; null removes it.",
        ),
    ] = (),
    tag: Annotated[tuple[str, ...], Parameter(negative="", help="A tag to add.")] = (),
    untag: Annotated[tuple[str, ...], Parameter(negative="", help="A tag to remove.")] = (),
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Change payload, metadata or tags of a dead or waiting task. A dead one is replayed afterwards."""
    if not (pairs or json is not None or metadata or tag or untag):
        raise Usage("nothing is given: write key=value pairs, --json, --metadata, --tag or --untag")
    payload = values.payload(pairs, json) if pairs or json is not None else msgspec.UNSET
    fields_of_metadata = values.payload(metadata, None) or None
    tags = {"add": list(tag), "remove": list(untag)} if tag or untag else None

    async def work(operations: Operations) -> tuple[Task, Task, dict[str, Any]]:
        before = await find_task(operations.tasks, task_id, for_change=True)
        merge = json is None and not replace
        who = by(reason, expect_version)
        after = await operations.tasks.edit(
            before.id, payload, who, merge=merge, metadata=fields_of_metadata, tags=tags
        )
        return before, after, await whole(operations, after)

    before, after, item = with_operations(common, work, dry_run=dry_run)
    printer = Printer(common, dry_run=dry_run)
    fields = [("id", item["id"]), ("status", item["status"]), ("payload", after.payload_json)]
    if metadata:
        fields.append(("metadata", dumps(item["metadata"])))
    if tags is not None:
        fields.append(("tags", ", ".join(item["tags"])))
    if payload is msgspec.UNSET:
        printer.one(item, fields, name=item["id"])
        return
    change = edits.difference(before.payload_json, after.payload_json)
    was = change.get("before", "too long to show: see `task history`")
    if isinstance(was, dict):
        fields += [(f"- {name}", dumps(value)) for name, value in was.items()]
        fields += [(f"+ {name}", "new") for name in change.get("added", ())]
    else:
        fields.append(("- payload", dumps(was)))
    printer.one(item, fields, name=item["id"])


def _bulk(
    common: Common,
    which: DeadFilter,
    change: Bulk,
    words: tuple[str, str],
    *,
    limit: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Counts, asks for confirmation, applies the change."""

    async def work(operations: Operations) -> int | None:
        letters = operations.dead_letters
        group = await full_fingerprint(letters, which.fingerprint)
        matching = DeadFilter(which.type, which.queue, group)
        count = await change(letters, matching, limit, True)
        if dry_run or not count:
            return count
        question = f"{words[0].capitalize()} {count} dead letters?"
        if not confirmed(question, yes=yes, can_count=True):
            return None
        # Tasks that died after the question are not included.
        return await change(letters, matching, count, False)

    count = with_operations(common, work)
    printer = Printer(common)
    if count is None:
        printer.note("nothing was changed")
        return 1
    done = f"would be {words[1]}" if dry_run else words[1]
    item = {"count": count, "dry_run": dry_run}
    printer.one(item, [(done, str(count))], name=count)
    return 0


def _filter(type: str | None, queue: str | None, fingerprint: str | None, all_: bool) -> DeadFilter:
    if not (type or queue or fingerprint or all_):
        raise Usage(
            "no dead letter is given: pass ids, -q, --type, --queue, --fingerprint or --all"
        )
    return DeadFilter(type, queue, fingerprint)


def _refuse_filter(*given: object) -> None:
    if any(given):
        raise Usage("both ids (or -q) and a filter are given: use one of them")
