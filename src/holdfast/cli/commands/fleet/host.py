"""`holdfast host list|show|select`: the hosts of the fleet."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import answer_of, calls_of, v1, whole_id
from holdfast.cli.lists import print_pages
from holdfast.cli.options import COMMON, Common, Limit, Project
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import length
from holdfast.cli.session import with_queue
from holdfast.core.codec import dumps
from holdfast.core.fleet.model import HOST_PREFIX, HostState

Name = Annotated[str, Parameter(help="The host's name, its id, or a prefix of its id.")]
Selector = Annotated[
    str, Parameter(help="A selector, e.g. 'web-[001-050]', role=web or '@blue&zone=eu'.")
]


def list_(
    selector: Annotated[
        str | None, Parameter(help="Only these, e.g. 'web-[001-050]' or role=web.")
    ] = None,
    /,
    *,
    state: Annotated[HostState | None, Parameter(help="Only in this state.")] = None,
    query: Annotated[
        str | None,
        Parameter(
            name=("--query", "-q"),
            help="Only those that match, as ?q= of the API, or whose names contain this text.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    project: Project = None,
    limit: Limit = 50,
    after: Annotated[
        str | None, Parameter(help="Where the previous page ended, as it has said.")
    ] = None,
    common: Common = COMMON,
) -> None:
    """List hosts, by name."""
    given = {"selector": selector, "state": state, "q": query, "project": project}

    async def work(queue: TaskQueue) -> int:
        calls = await calls_of(queue)

        async def read(after: str | None, limit: int) -> tuple[list[Item], str | None]:
            asked = {**given, "limit": limit, "after": after}
            page = (await calls.call("GET", v1("hosts"), query=asked)).body
            return page["items"], page["next"]

        return await print_pages(
            Printer(common),
            read,
            _columns(),
            "no hosts",
            after=after,
            limit=limit,
            is_search=query is not None,
        )

    with_queue(common, work)


def show(name: Name, /, *, project: Project = None, common: Common = COMMON) -> None:
    """Show a host with its facts, its groups and the blocks that count for it."""
    path = v1("hosts", host_ref(common, name, project))
    print_host(common, answer_of(common, "GET", path, query={"project": project}))


def select(selector: Selector, /, *, project: Project = None, common: Common = COMMON) -> None:
    """Show the hosts that a selector stands for now. A job pins them when it is made."""
    query = {"selector": selector, "project": project}
    item = answer_of(common, "GET", v1("hosts", "select"), query=query)
    lines = [("selector", item["selector"]), ("hosts", item["count"]), ("names", item["folded"])]
    Printer(common).one(item, lines, names=item["hosts"])


def host_ref(common: Common, text: str, project: str | None) -> str:
    """The name or the id of a host. An id may be a prefix."""
    if not text.startswith(HOST_PREFIX):
        return text
    return whole_id(common, "hosts", text, project=project)


def print_host(common: Common, item: Item, *, dry_run: bool = False) -> None:
    lines: list[tuple[str, object]] = [
        (item["name"], standing_word(item)),
        ("id", None if dry_run else item["id"]),
        ("project", item["project"]),
        ("driver", item["driver"]),
        ("address", item["address"]),
        ("labels", shown_labels(item)),
        ("groups", ", ".join(item.get("groups", ()))),
        ("agent", shown_agent(item)),
        ("slot", _slot(item)),
        ("blocks", ", ".join(item.get("blocks", ()))),
        ("facts", dumps(item["facts"]) if item.get("facts") else None),
        ("version", item["version"]),
    ]
    Printer(common, dry_run=dry_run).one(item, lines, name=item["name"])


def shown_labels(item: Item) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(item["labels"].items()))


def shown_agent(item: Item) -> str:
    agent: dict[str, Any] | None = item["agent"]
    if agent is None:
        return "" if item["driver"] == "ssh" else "never heard of"
    state = "live" if agent["live"] else "silent"
    version = f", version {agent['version']}" if agent["version"] else ""
    return f"{state}, heard of {length(agent['seen_seconds_ago'])} ago{version}"


def standing_word(item: Item) -> str:
    """Where a host stands. The answer to a change knows its state only."""
    return str(item.get("standing") or item["state"])


def _slot(item: Item) -> str | None:
    slot = item["slot"]
    if slot is None:
        return None
    since = f" since {slot['since']}" if slot["since"] else ""
    return f"execution {slot['execution_id']}, token {slot['token']}{since}"


def _columns() -> list[Column]:
    return [
        Column("NAME", lambda item: item["name"], flex=True),
        Column("STANDING", standing_word),
        Column("DRIVER", lambda item: item["driver"], rank=2),
        Column("AGENT", _agent_word),
        Column("SLOT", lambda item: (item["slot"] or {}).get("execution_id"), rank=1),
        Column("LABELS", shown_labels, flex=True),
    ]


def _agent_word(item: Item) -> str:
    agent = item["agent"]
    if agent is None:
        return "" if item["driver"] == "ssh" else "never"
    return "live" if agent["live"] else f"silent {length(agent['seen_seconds_ago'])}"
