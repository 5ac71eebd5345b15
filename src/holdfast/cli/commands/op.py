"""`holdfast op run|list|show|stop|resume|undo`: changes of many tasks at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple

from cyclopts import Parameter

from holdfast.app import TaskQueue, http_of
from holdfast.cli import values
from holdfast.cli.api import answer_of, full_id, v1, whole_id, working_calls_of
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.commands.op_progress import OpDisplay, op_display
from holdfast.cli.exits import Exit
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import (
    CHANGE,
    COMMON,
    After,
    Change,
    Common,
    DryRun,
    Limit,
    Patch,
    Progress,
    Query,
    Reason,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import moment
from holdfast.cli.problem import PARTIAL, Usage
from holdfast.cli.session import advice, remark, with_queue
from holdfast.client.calls import Answer, Calls
from holdfast.client.patience import patiently
from holdfast.clock import SystemClock
from holdfast.core import codec
from holdfast.core.bulk import BulkAction, BulkState
from holdfast.core.plural import noun_for
from holdfast.errors import HoldfastError

NOTHING: Final = Exit.FAILED
"""The exit code of an operation that changed no task."""
INTERRUPTED: Final = "the command was interrupted"
"""Why an operation was stopped."""
LOOK_SECONDS: Final = 0.2
"""How often a command that waits looks at its operation."""
Leave = Annotated[
    bool, Parameter(negative="", help="On Ctrl-C, let the operation go on at a gateway.")
]
HowShown = Annotated[
    Progress, Parameter(help="How progress is shown; auto: by whether there is a terminal.")
]
Id = Annotated[str, Parameter(help="The operation's id, a prefix that matches one, or @last.")]


def run(
    action: Annotated[str, Parameter(help="replay, discard, abort, pause, resume or reassign.")],
    /,
    *,
    query: Annotated[
        str,
        Parameter(
            name=("--query", "-q"), help="The tasks, e.g. type:mail.", allow_leading_hyphen=True
        ),
    ],
    to: Annotated[str | None, Parameter(help="For reassign: the node.")] = None,
    patch: Patch = None,
    rate: Annotated[float | None, Parameter(help="At most this many tasks per second.")] = None,
    canary: Annotated[
        int | None,
        Parameter(help="Stop if one of the first N tasks is refused or, in a replay, fails again."),
    ] = None,
    stop_on_fail_share: Annotated[
        float | None,
        Parameter(
            help="Stop above this share of tasks that are refused or, in a replay, fail again; e.g. 0.1."
        ),
    ] = None,
    expect_count: Annotated[int | None, Parameter(help="Only if this many tasks match.")] = None,
    dry_run: DryRun = False,
    leave: Leave = False,
    progress: HowShown = Progress.AUTO,
    reason: Reason = "",
    common: Common = COMMON,
) -> int:
    """Change all tasks that match a query, and wait for the end. Ctrl-C stops the operation."""
    _check_action(action, to, patch)
    given = {
        "action": action,
        "q": query,
        "args": _args(to, patch),
        "rate_per_second": rate,
        "canary": canary,
        "stop_on_fail_share": stop_on_fail_share,
        "expect_count": expect_count,
        "reason": reason,
        "dry_run": dry_run,
    }
    body = {name: value for name, value in given.items() if value is not None}

    async def work(queue: TaskQueue) -> dict[str, Any]:
        async with working_calls_of(queue) as calls:
            request = calls.call("POST", v1("operations"), body)
            if not dry_run:
                return await _waiting(queue, calls, common, progress, leave=leave).ended(request)
            foreseen: dict[str, Any] = (await request).body
            return foreseen

    item = with_queue(common, work)
    return _print_foreseen(common, item) if dry_run else _ended(common, item, progress)


def _print_foreseen(common: Common, item: dict[str, Any]) -> int:
    lines = [("match", str(item["count"])), ("eligible", str(item["eligible"]))]
    lines += [_counted("not", refusal) for refusal in item["skipped"]]
    if (example := item.get("example")) is not None:
        lines += [(f"{example['id']} has", codec.dumps(example["before"]))]
        lines += [("it would have", codec.dumps(example["after"]))]
    Printer(common).one(item, lines, name=str(item["count"]))
    return 0


def list_(
    *, query: Query = None, limit: Limit = 50, after: After = None, common: Common = COMMON
) -> None:
    """List operations, latest first."""
    page = page_of(common, v1("operations"), q=query, limit=limit, after=after)
    print_list(common, page, _columns(), "no operations: `holdfast op run` makes one")


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show an operation and how far it is."""
    _print(common, answer_of(common, "GET", v1("operations", _id(common, id))))


def stop(
    ids: Annotated[
        list[str], Parameter(help="Ids, prefixes that match one, @last, or - for stdin.")
    ],
    /,
    *,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> int:
    """Change no further task. What was changed stays."""

    async def change(calls: Calls, text: str) -> Changed:
        id = await full_id(calls, "operations", text)
        item = (
            await calls.call("POST", v1("operations", id, "stop"), {"reason": given.reason})
        ).body
        return Changed(
            id, item, f"stopped after {item['done'] + item['failed']} of {item['total']}"
        )

    return change_each(common, ids, change, "operation", dry_run=given.dry_run, one=True)


def resume(
    id: Id,
    /,
    *,
    leave: Leave = False,
    progress: HowShown = Progress.AUTO,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> int:
    """Go on with the tasks that are left, and wait for the end. Ctrl-C stops the operation."""
    id = _id(common, id)
    reason = given.reason
    if given.dry_run:
        path = v1("operations", id, "resume")
        item = answer_of(common, "POST", path, {"reason": reason}, dry_run=True)
        left = item["total"] - item["done"] - item["failed"]
        Printer(common, dry_run=True).one(
            item, [(id, f"{left} {noun_for(left, 'task')} left")], name=id
        )
        return 0

    async def work(queue: TaskQueue) -> dict[str, Any]:
        async with working_calls_of(queue) as calls:
            request = calls.call("POST", v1("operations", id, "resume"), {"reason": reason})
            return await _waiting(queue, calls, common, progress, leave=leave).ended(request)

    return _ended(common, with_queue(common, work), progress)


def undo(
    id: Id,
    /,
    *,
    leave: Leave = False,
    progress: HowShown = Progress.AUTO,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> int:
    """Resume the tasks that an operation has paused and still holds, and wait for the end. Other actions have
    no undo. Ctrl-C stops the operation."""
    path = v1("operations", _id(common, id), "undo")
    body = {"reason": given.reason, "dry_run": given.dry_run}
    if given.dry_run:
        return _print_foreseen(common, answer_of(common, "POST", path, body))

    async def work(queue: TaskQueue) -> dict[str, Any]:
        async with working_calls_of(queue) as calls:
            request = calls.call("POST", path, body)
            return await _waiting(queue, calls, common, progress, leave=leave).ended(request)

    return _ended(common, with_queue(common, work), progress)


def _args(to: str | None, patch: str | None) -> dict[str, Any] | None:
    if to is not None:
        return {"to_node": to}
    return None if patch is None else {"patch": values.patch(patch)}


def _check_action(action: str, to: str | None, patch: str | None) -> None:
    """Raises Usage in the words of the command line."""
    if action not in set(BulkAction):
        raise Usage(f"'{action}' is not an action: give {', '.join(BulkAction)}")
    if (action == BulkAction.REASSIGN) != (to is not None):
        raise Usage("reassign needs --to NODE (see holdfast node list); other actions take no --to")
    if patch is not None and action != BulkAction.REPLAY:
        raise Usage("--patch changes payloads in a replay: other actions take none")


def _waiting(
    queue: TaskQueue, calls: Calls, common: Common, progress: Progress, *, leave: bool
) -> _Waiting:
    printer = Printer(common)
    display = op_display(progress, printer, SystemClock().monotonic)
    return _Waiting(queue, calls, printer, display, leave)


class _Waiting(NamedTuple):
    """A command that waits for its operation."""

    queue: TaskQueue
    calls: Calls
    printer: Printer
    display: OpDisplay
    leave: bool

    async def ended(self, request: Coroutine[Any, Any, Answer]) -> dict[str, Any]:
        """The operation that the request begins, when it has ended or was stopped. An interrupt stops it,
        even if the request is not answered yet."""
        begins = asyncio.create_task(request)
        try:
            item: dict[str, Any] = (await asyncio.shield(begins)).body
            self.printer.note(f"operation {item['id']}")
            return await self._look_until_end(item["id"])
        except asyncio.CancelledError:
            self.display.close()
            await self._interrupted((await begins).body["id"])
            raise

    async def _look_until_end(self, id: str) -> dict[str, Any]:
        """A gateway that restarts goes on with the operation."""
        http = http_of(self.queue)
        request = partial(self.calls.call, "GET", v1("operations", id))
        with advice(lambda: f"the operation {id} goes on: holdfast op show {id}"):
            while True:
                answer = await (
                    request() if http is None else patiently(http, request, http.patience_seconds)
                )
                item: dict[str, Any] = answer.body
                if item["state"] != BulkState.RUNNING:
                    self.display.close()
                    return item
                self.display.show(item)
                await asyncio.sleep(LOOK_SECONDS)

    async def _interrupted(self, id: str) -> None:
        if self.leave:
            remark(
                f"operation {id} goes on at a gateway of the store: holdfast op stop {id} stops it"
            )
            return
        path = v1("operations", id, "stop")
        try:
            item = (await self.calls.call("POST", path, {"reason": INTERRUPTED})).body
        except HoldfastError as error:
            remark(f"operation {id} was not stopped: {error}; see holdfast op show {id}")
            return
        judged = item["done"] + item["failed"]
        remark(
            f"operation {id} is stopped after {judged} of {item['total']} tasks: "
            f"holdfast op resume {id} goes on with the others"
        )


def _ended(common: Common, item: dict[str, Any], progress: Progress) -> int:
    """Prints how it ended, in the way that its progress was shown. The exit code."""
    if progress is Progress.JSON:
        Printer(common).object(item)
    elif progress is not Progress.QUIET:
        _print(common, item)
    return _exit_code(item)


def _exit_code(item: dict[str, Any]) -> int:
    """0 only if all tasks were changed."""
    if not item["done"]:
        return NOTHING
    return 0 if item["done"] == item["total"] else PARTIAL


def _id(common: Common, id: str) -> str:
    return whole_id(common, "operations", id)


def _counted(word: str, refusal: dict[str, Any]) -> tuple[str, str]:
    return f"{word}: {refusal['reason']}", str(refusal["count"])


def _print(common: Common, item: dict[str, Any]) -> None:
    lines = [
        (item["id"], item["state"]),
        ("action", item["action"]),
        ("query", item["q"] or ""),
        ("done", f"{item['done']} of {item['total']}, {item['failed']} refused"),
        *(_counted("refused", refusal) for refusal in item["errors"]),
        ("actor", item["actor"]),
        ("reason", item["reason"]),
    ]
    if item["detail"]:
        is_stopped = item["state"] == BulkState.STOPPED
        lines.append(("stopped" if is_stopped else "waits", item["detail"]))
    Printer(common).one(item, lines, name=item["id"])


def _columns() -> list[Column]:
    return [
        Column("ID", itemgetter("id")),
        Column("STATE", itemgetter("state")),
        Column("ACTION", itemgetter("action")),
        Column("TOTAL", itemgetter("total")),
        Column("DONE", itemgetter("done")),
        Column("REFUSED", itemgetter("failed")),
        Column("ACTOR", itemgetter("actor"), flex=True),
        Column("CREATED", lambda item: moment(item["created_at"]), rank=1),
    ]
