"""`holdfast conflict list|show|settle`: content that nodes wrote on one base."""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import answer_of, full_id, v1, whole_id
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.lists import default_state, page_of, print_list, with_terms
from holdfast.cli.options import (
    COMMON,
    VERSIONED,
    After,
    Common,
    Limit,
    Query,
    VersionedChange,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import moment
from holdfast.cli.problem import Usage
from holdfast.cli.projects import check_projects
from holdfast.client.calls import Calls
from holdfast.core.codec import dumps

Id = Annotated[str, Parameter(help="The conflict's id, a prefix that matches one, or @last.")]

MERGED = "merged"
EXAMPLE = (
    """--merged '{"payload": {"n": 2}, "metadata": {}, "labels": []}' with the parts that change"""
)


def list_(
    *,
    project: Annotated[str | None, Parameter(help="Only those of this project.")] = None,
    state: Annotated[
        str | None, Parameter(help="open (the default), settled, or both: all.")
    ] = None,
    query: Query = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List conflicts, oldest first."""
    shown = default_state(state, query, "open")
    q = with_terms(query, state=shown, project=project)
    page = page_of(common, v1("conflicts"), q=q, limit=limit, after=after)
    if not page.items and project is not None:
        check_projects(common, [project])
    print_list(common, page, _columns(), "no open conflicts" if shown == "open" else "no conflicts")


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a conflict with both sides."""
    id = whole_id(common, "conflicts", id)
    _print(common, answer_of(common, "GET", v1("conflicts", id)))


def settle(
    id: Id,
    take: Annotated[str, Parameter(help="The side that counts: server, client or merged.")],
    /,
    *,
    merged: Annotated[
        str | None, Parameter(help="For merged: JSON with payload, metadata, labels.")
    ] = None,
    given: VersionedChange = VERSIONED,
    common: Common = COMMON,
) -> int:
    """Settle a conflict. The content of the side that is taken is written; a status never is."""
    body = {"take": take, "merged": _content(take, merged), **given.body()}

    async def change(calls: Calls, text: str) -> Changed:
        whole = await full_id(calls, "conflicts", text)
        item = (await calls.call("POST", v1("conflicts", whole, "settle"), body)).body["conflict"]
        return Changed(whole, item, f"settled: {item['resolution']}")

    version = given.expect_version
    return change_each(
        common, [id], change, "conflict", expect_version=version, dry_run=given.dry_run, one=True
    )


def _content(take: str, text: str | None) -> dict[str, Any] | None:
    """The content that --merged gives. Usage if it does not fit the side that is taken."""
    if take != MERGED:
        if text is None:
            return None
        raise Usage(
            f"--merged is the content for the side merged, not for {take}: leave one of them out"
        )
    if text is None:
        raise Usage(f"the side merged needs its content: give {EXAMPLE}")
    content = values.parse_json(text, "--merged")
    if not isinstance(content, dict):
        raise Usage(f"--merged is {text[:40]}, not a JSON object: give {EXAMPLE}")
    return content


def _print(common: Common, item: dict[str, Any]) -> None:
    written = moment(item["server_written_at"]) if item["server_written_at"] else ""
    lines = [
        (item["id"], item["state"]),
        ("task", f"{item['client_id']} ({item['task_id']})"),
        ("project", item["project"]),
        ("node", item["node"]),
        ("server", f"version {item['server_version']}: {dumps(item['server'])}"),
        ("written", " by ".join(filter(None, (written, item["server_written_by"]))) or "-"),
        ("client", f"version {item['base_version']}: {dumps(item['client'])}"),
        ("arrived", moment(item["created_at"])),
    ]
    if item["base"] is not None:
        lines.append(("base", dumps(item["base"])))
    if item["settled_by"]:
        lines.append(("settled", f"{item['resolution']} by {item['settled_by']}"))
    Printer(common).one(item, lines, name=item["id"])


def _columns() -> list[Column]:
    return [
        Column("ID", itemgetter("id")),
        Column("STATE", itemgetter("state")),
        Column("KIND", itemgetter("kind")),
        Column("PROJECT", itemgetter("project"), rank=2),
        Column("TASK", itemgetter("client_id"), flex=True),
        Column("NODE", itemgetter("node"), flex=True),
        Column("CREATED", lambda item: moment(item["created_at"]), rank=1),
    ]
