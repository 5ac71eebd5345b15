"""`holdfast audit list|verify`: the acts of operators, and whether their chain is whole."""

from __future__ import annotations

from holdfast.cli.api import answer_of, v1
from holdfast.cli.options import COMMON, Common, Limit
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column


def list_(*, limit: Limit = 50, common: Common = COMMON) -> None:
    """List acts of operators, the latest first."""
    items = answer_of(common, "GET", v1("audit"), query={"limit": limit})["items"]
    Printer(common).rows(items, _columns(), empty="no acts yet")


def verify(*, common: Common = COMMON) -> int:
    """Check that no audit row was changed or removed. Exit code 1 if one was."""
    item = answer_of(common, "GET", v1("audit", "verify"))
    text = "whole" if item["ok"] else f"broken at row {item['first_wrong']}"
    Printer(common).one(item, [("audit", text), ("rows", item["rows"]), ("head", item["head"])])
    return 0 if item["ok"] else 1


def _columns() -> list[Column]:
    return [
        Column("SEQ", lambda item: item["seq"]),
        Column("AT", lambda item: item["at"]),
        Column("ACTOR", lambda item: item["actor"], flex=True),
        Column("OPERATION", lambda item: item["operation"]),
        Column("SUBJECT", lambda item: item["subject"], flex=True),
        Column("REASON", lambda item: item["reason"], flex=True),
    ]
