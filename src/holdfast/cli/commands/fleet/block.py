"""`holdfast block list|show|add|edit|lift`: what keeps commands off hosts."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import answer_of, v1, whole_id
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import (
    COMMON,
    After,
    Common,
    DryRun,
    ExpectVersion,
    Flag,
    Limit,
    Project,
    Query,
    Reason,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import length
from holdfast.cli.problem import Usage
from holdfast.cli.session import remark
from holdfast.client.calls import Calls
from holdfast.core.fleet.model import BlockEffect, OnLift, OnRunning

Id = Annotated[str, Parameter(help="The block's id, a prefix that matches one, or @last.")]
TypeGlob = Annotated[
    str | None, Parameter(name="--type", help="Only commands of these types: a name, or a glob.")
]
Why = Annotated[str, Parameter(name=("--reason", "-m"), help="Why; shown for each host.")]
Owner = Annotated[str | None, Parameter(help="Who is asked about it; default: you.")]
Effect = Annotated[
    BlockEffect | None, Parameter(help="refuse: executions end. hold: they wait for the end.")
]
Running = Annotated[OnRunning | None, Parameter(help="What happens to a command that runs.")]
Lifted = Annotated[OnLift | None, Parameter(help="What happens to held executions at the end.")]
Expires = Annotated[str | None, Parameter(help="When it ends by itself, e.g. 2h.")]
Window = Annotated[
    str | None,
    Parameter(help="It counts only in these times: an RRULE, with --window-length."),
]
WindowLength = Annotated[str | None, Parameter(help="How long each window lasts, e.g. 2h.")]
Timezone = Annotated[str | None, Parameter(help="The time zone of the windows; default: UTC.")]


def list_(
    *,
    host: Annotated[str | None, Parameter(help="Only those that count for this host now.")] = None,
    lifted: Annotated[Flag, Parameter(help="The latest that are over.")] = False,
    query: Query = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List blocks, the oldest first."""
    given: dict[str, Any] = {"host": host, "lifted": lifted or None, "project": project}
    page = page_of(common, v1("blocks"), q=query, limit=limit, after=after, **given)
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("HOSTS", _hosts, flex=True),
        Column("TYPE", lambda item: item["command_type"], flex=True, rank=2),
        Column("EFFECT", lambda item: item["effect"]),
        Column("STATE", _state),
        Column("OWNER", lambda item: item["owner"], flex=True, rank=1),
        Column("REASON", lambda item: item["reason"], flex=True),
    ]
    print_list(common, page, columns, "no blocks: `holdfast block add` makes one")


def show(id: Id, /, *, project: Project = None, common: Common = COMMON) -> None:
    """Show a block with the hosts that it is about."""
    id = whole_id(common, "blocks", id, project=project)
    _print(common, answer_of(common, "GET", v1("blocks", id)))


def add(
    *,
    reason: Why,
    host: Annotated[str | None, Parameter(help="One host: a name or an id.")] = None,
    hosts: Annotated[str | None, Parameter(help="A selector of hosts, e.g. role=db.")] = None,
    type: TypeGlob = None,
    owner: Owner = None,
    effect: Effect = None,
    on_running: Running = None,
    on_lift: Lifted = None,
    expires: Expires = None,
    window: Window = None,
    window_length: WindowLength = None,
    timezone: Timezone = None,
    project: Project = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Keep commands off hosts. Checked at planning, at each offer, and on the host."""
    if (host is None) is (hosts is None):
        raise Usage("give --host NAME or --hosts SELECTOR: what the block is about")
    body = _fields(
        command_type=type,
        owner=owner,
        effect=effect,
        on_running=on_running,
        on_lift=on_lift,
        expires_in_seconds=None if expires is None else values.seconds(expires, "--expires"),
        window=_window(window, window_length, timezone),
    )
    body |= {"reason": reason, "host": host, "selector": hosts, "project": project}
    item = answer_of(common, "POST", v1("blocks"), body, dry_run=dry_run)
    if dry_run:
        query = {"selector": host or hosts, "project": project}
        found = answer_of(common, "GET", v1("hosts", "select"), query=query)
        item |= {"affects": found["count"], "folded": found["folded"]}
    _print(common, item, dry_run=dry_run)


def edit(
    id: Id,
    /,
    *,
    reason: Annotated[
        str | None, Parameter(name=("--reason", "-m"), help="Another reason of the block.")
    ] = None,
    type: TypeGlob = None,
    owner: Owner = None,
    effect: Effect = None,
    on_running: Running = None,
    on_lift: Lifted = None,
    expires: Annotated[
        str | None, Parameter(help="When it ends from now, e.g. 2h; never removes the end.")
    ] = None,
    window: Annotated[
        str | None, Parameter(help="An RRULE, with --window-length; none removes the windows.")
    ] = None,
    window_length: WindowLength = None,
    timezone: Timezone = None,
    project: Project = None,
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Change a block. What is not given stays as it is."""
    body = _fields(
        reason=reason,
        command_type=type,
        owner=owner,
        effect=effect,
        on_running=on_running,
        on_lift=on_lift,
    )
    if expires is not None:
        never = expires == "never"
        body["expires_in_seconds"] = None if never else values.seconds(expires, "--expires")
    if window is not None or window_length is not None or timezone is not None:
        body["window"] = None if window == "none" else _window(window, window_length, timezone)
    if not body:
        raise Usage("nothing to change: give --reason, --type, --effect, --expires, --window, ...")
    id = whole_id(common, "blocks", id, project=project)
    body["expected_version"] = expect_version
    item = answer_of(common, "PATCH", v1("blocks", id), body, dry_run=dry_run)
    _print(common, item, dry_run=dry_run)


def lift(
    ids: Annotated[list[str], Parameter(help="Ids or prefixes of ids of blocks, or - for stdin.")],
    /,
    *,
    project: Project = None,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """End blocks. What a block held goes on as its --on-lift says."""

    async def change(calls: Calls, id: str) -> Changed:
        given = {"reason": reason, "expected_version": expect_version}
        item = (await calls.call("DELETE", v1("blocks", id), query=given)).body
        return Changed(id, item, "lifted")

    refs = [whole_id(common, "blocks", id, project=project) for id in ids]
    return change_each(
        common, refs, change, "block", expect_version=expect_version, dry_run=dry_run
    )


def _fields(**given: object) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _window(rule: str | None, size: str | None, timezone: str | None) -> dict[str, Any] | None:
    if rule is None and size is None and timezone is None:
        return None
    if rule is None or size is None:
        raise Usage("a window needs both --window RRULE and --window-length DURATION")
    seconds = values.seconds(size, "--window-length")
    return {"rrule": rule, "duration_seconds": seconds, "timezone": timezone or "UTC"}


def _hosts(item: Item) -> str:
    return str(item["host"] or item["selector"] or item["host_id"])


def _state(item: Item) -> str:
    if item["lifted_at"] is not None:
        return f"over since {item['lifted_at']}"
    if not item["active"]:
        opens = item["next_windows"]
        return f"waits for its window, {opens[0]}" if opens else "counts no more"
    left = item["remaining_seconds"]
    if item["until"] not in (None, item["expires_at"]):
        return f"counts until {item['until']}"
    return "counts" if left is None else f"counts, {length(left)} left"


def _window_text(window: dict[str, Any]) -> str:
    return f"{window['rrule']} for {length(window['duration_seconds'])}, {window['timezone']}"


def _print(common: Common, item: Item, *, dry_run: bool = False) -> None:
    for warning in item["warnings"]:
        remark(f"warning: {warning}")
    window = item["window"]
    lines = [
        ("block" if dry_run else item["id"], _state(item)),
        ("hosts", _hosts(item)),
        ("affects", item.get("affects")),
        ("names", item.get("folded")),
        ("type", item["command_type"]),
        ("reason", item["reason"]),
        ("owner", item["owner"]),
        ("effect", item["effect"]),
        ("on running", item["on_running"]),
        ("on lift", item["on_lift"]),
        ("window", window and _window_text(window)),
        ("next", ", ".join(item["next_windows"]) or None),
        ("expires", item["expires_at"]),
        ("lifted by", item["lifted_by"]),
        ("version", item["version"]),
    ]
    Printer(common, dry_run=dry_run).one(item, lines, name=item["id"])
