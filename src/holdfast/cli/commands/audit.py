"""`holdfast audit list|verify|export`: the acts of operators, and whether their chain is whole."""

from __future__ import annotations

from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import answer_of, calls_of, v1
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import COMMON, After, Common, Limit, Output, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import moment
from holdfast.cli.session import with_queue

PAGE: Final = 1_000


def list_(
    *, query: Query = None, limit: Limit = 50, after: After = None, common: Common = COMMON
) -> None:
    """List acts of operators, the latest first."""
    page = page_of(common, v1("audit"), q=query, limit=limit, after=after)
    print_list(common, page, _columns(), "no acts")


def verify(*, common: Common = COMMON) -> int:
    """Check that no audit row was changed or removed. Exit code 1 if one was."""
    item = answer_of(common, "GET", v1("audit", "verify"))
    text = "whole" if item["ok"] else f"broken at row {item['first_wrong']}"
    Printer(common).one(item, [("audit", text), ("rows", item["rows"]), ("head", item["head"])])
    return 0 if item["ok"] else 1


def export(
    *,
    since: Annotated[int, Parameter(help="Only acts after this number.")] = 0,
    common: Common = COMMON,
) -> None:
    """Print all acts of operators, the oldest first: one JSON object a line, with the hashes of the chain."""
    printer = Printer(common)
    kept: list[dict[str, Any]] = []

    async def work(queue: TaskQueue) -> None:
        calls, query = await calls_of(queue), {"since": since, "limit": PAGE}
        while True:
            page = (await calls.call("GET", v1("audit"), query=query)).body["items"]
            for item in page:
                if printer.output is Output.JSON:
                    kept.append(item)
                elif printer.output is Output.NAME:
                    print(item["seq"])
                else:
                    printer.object(item)
            if len(page) < PAGE:
                return
            query["since"] = page[-1]["seq"]

    with_queue(common, work)
    if printer.output is Output.JSON:
        printer.document(kept)


def _columns() -> list[Column]:
    return [
        Column("SEQ", lambda item: item["seq"]),
        Column("AT", lambda item: moment(item["at"])),
        Column("ACTOR", lambda item: item["actor"], flex=True),
        Column("OPERATION", lambda item: item["operation"]),
        Column("SUBJECT", lambda item: item["subject"], flex=True),
        Column("REASON", lambda item: item["reason"], flex=True),
    ]
