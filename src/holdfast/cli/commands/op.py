"""`holdfast op run|list|show|stop|resume`: changes of many tasks at once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.app import TaskQueue, http_of
from holdfast.cli.api import answer_of, calls_of, v1, whole_id
from holdfast.cli.options import COMMON, Common, DryRun, Limit, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.problem import PARTIAL, Usage
from holdfast.cli.session import advice, with_queue
from holdfast.client.calls import Calls
from holdfast.client.patience import patiently
from holdfast.core.bulk import BulkAction, BulkState

NOTHING: Final = 1
"""The exit code of an operation that changed no task."""
LOOK_SECONDS: Final = 0.2
"""How often a command that waits looks at its operation."""
Id = Annotated[str, Parameter(help="The operation's id, or a prefix that matches one.")]


def run(
    action: Annotated[str, Parameter(help="replay, discard, abort, pause, resume or reassign.")],
    /,
    *,
    query: Annotated[str, Parameter(name=("--query", "-q"), help="The tasks, e.g. type:mail.")],
    to: Annotated[str | None, Parameter(help="For reassign: the node.")] = None,
    rate: Annotated[float | None, Parameter(help="At most this many tasks per second.")] = None,
    canary: Annotated[
        int | None, Parameter(help="Stop if one of the first N tasks is refused.")
    ] = None,
    stop_on_fail_share: Annotated[
        float | None, Parameter(help="Stop above this share of refused tasks, e.g. 0.1.")
    ] = None,
    expect_count: Annotated[int | None, Parameter(help="Only if this many tasks match.")] = None,
    dry_run: DryRun = False,
    reason: Reason = "",
    common: Common = COMMON,
) -> int:
    """Change all tasks that match a query, and wait for the end. Through a gateway the operation goes on if
    this command is interrupted."""
    _check_action(action, to)
    given = {
        "action": action,
        "q": query,
        "args": None if to is None else {"to_node": to},
        "rate_per_second": rate,
        "canary": canary,
        "stop_on_fail_share": stop_on_fail_share,
        "expect_count": expect_count,
        "reason": reason,
        "dry_run": dry_run,
    }
    body = {name: value for name, value in given.items() if value is not None}

    async def work(queue: TaskQueue) -> dict[str, Any]:
        calls = await calls_of(queue)
        made: dict[str, Any] = (await calls.call("POST", v1("operations"), body)).body
        return made if dry_run else await _ended(queue, calls, made["id"], Printer(common))

    item = with_queue(common, work)
    if not dry_run:
        _print(common, item)
        return _exit_code(item)
    lines = [("match", str(item["count"])), ("eligible", str(item["eligible"]))]
    lines += [_counted("not", refusal) for refusal in item["skipped"]]
    Printer(common).one(item, lines, name=str(item["count"]))
    return 0


def list_(*, limit: Limit = 50, common: Common = COMMON) -> None:
    """List operations, latest first."""
    items = answer_of(common, "GET", v1("operations"), query={"limit": limit})["items"]
    Printer(common).rows(items, _columns(), empty="no operations")


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show an operation and how far it is."""
    _print(common, answer_of(common, "GET", v1("operations", _id(common, id))))


def stop(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Change no further task. What was changed stays."""
    path = v1("operations", _id(common, id), "stop")
    _print(common, answer_of(common, "POST", path, {"reason": reason}))


def resume(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> int:
    """Go on with the tasks that are left, and wait for the end."""
    id = _id(common, id)

    async def work(queue: TaskQueue) -> dict[str, Any]:
        calls = await calls_of(queue)
        await calls.call("POST", v1("operations", id, "resume"), {"reason": reason})
        return await _ended(queue, calls, id, Printer(common))

    item = with_queue(common, work)
    _print(common, item)
    return _exit_code(item)


def _check_action(action: str, to: str | None) -> None:
    """Raises Usage in the words of the command line."""
    if action not in set(BulkAction):
        raise Usage(f"'{action}' is not an action: give {', '.join(BulkAction)}")
    if (action == BulkAction.REASSIGN) != (to is not None):
        raise Usage("reassign needs --to NODE (see holdfast node list); other actions take no --to")


async def _ended(queue: TaskQueue, calls: Calls, id: str, printer: Printer) -> dict[str, Any]:
    """The operation when it has ended or was stopped. A gateway that restarts goes on with it."""
    printer.note(f"operation {id}")
    http = http_of(queue)
    request = partial(calls.call, "GET", v1("operations", id))
    with advice(lambda: f"the operation {id} goes on: holdfast op show {id}"):
        while True:
            answer = await (
                request() if http is None else patiently(http, request, http.patience_seconds)
            )
            item: dict[str, Any] = answer.body
            if item["state"] != BulkState.RUNNING:
                return item
            await asyncio.sleep(LOOK_SECONDS)


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
        lines.append(("stopped", item["detail"]))
    Printer(common).one(item, lines, name=item["id"])


def _columns() -> list[Column]:
    def field(name: str) -> Any:
        return lambda item: item[name]

    return [
        Column("ID", field("id")),
        Column("STATE", field("state")),
        Column("ACTION", field("action")),
        Column("TOTAL", field("total")),
        Column("DONE", field("done")),
        Column("REFUSED", field("failed")),
        Column("ACTOR", field("actor"), flex=True),
        Column("CREATED", field("created_at")),
    ]
