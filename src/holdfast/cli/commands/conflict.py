"""`holdfast conflict list|show|settle`: content that nodes wrote on one base."""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import answer_of, v1, whole_id
from holdfast.cli.options import COMMON, Common, ExpectVersion, Limit, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.problem import Usage
from holdfast.cli.projects import check_projects
from holdfast.core.codec import dumps

Id = Annotated[str, Parameter(help="The conflict's id, or a prefix that matches one.")]

MERGED = "merged"
EXAMPLE = (
    """--merged '{"payload": {"n": 2}, "metadata": {}, "labels": []}' with the parts that change"""
)


def list_(
    *,
    project: Annotated[str | None, Parameter(help="Only those of this project.")] = None,
    state: Annotated[str, Parameter(help="open, settled, or both: all.")] = "open",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List conflicts, oldest first."""
    terms = {"state": None if state == "all" else state, "project": project}
    q = " ".join(f"{name}:{value}" for name, value in terms.items() if value is not None)
    items = answer_of(common, "GET", v1("conflicts"), query={"q": q, "limit": limit})["items"]
    if not items and project is not None:
        check_projects(common, [project])
    Printer(common).rows(items, _columns(), empty="no conflicts")


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
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    common: Common = COMMON,
) -> None:
    """Settle a conflict. The content of the side that is taken is written; a status never is."""
    body = {
        "take": take,
        "merged": _content(take, merged),
        "reason": reason,
        "expected_version": expect_version,
    }
    id = whole_id(common, "conflicts", id)
    _print(common, answer_of(common, "POST", v1("conflicts", id, "settle"), body)["conflict"])


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
    lines = [
        (item["id"], item["state"]),
        ("task", f"{item['client_id']} ({item['task_id']})"),
        ("project", item["project"]),
        ("node", item["node"]),
        ("server", f"version {item['server_version']}: {dumps(item['server'])}"),
        ("client", f"version {item['base_version']}: {dumps(item['client'])}"),
    ]
    if item["settled_by"]:
        lines.append(("settled", f"{item['resolution']} by {item['settled_by']}"))
    Printer(common).one(item, lines, name=item["id"])


def _columns() -> list[Column]:
    return [
        Column("ID", itemgetter("id")),
        Column("STATE", itemgetter("state")),
        Column("KIND", itemgetter("kind")),
        Column("PROJECT", itemgetter("project")),
        Column("TASK", itemgetter("client_id"), flex=True),
        Column("NODE", itemgetter("node"), flex=True),
        Column("CREATED", itemgetter("created_at")),
    ]
