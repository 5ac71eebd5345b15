"""`holdfast weight list|set`: how many tasks the keys of a fair type start in one turn."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import CHANGE, COMMON, Change, Common, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative
from holdfast.cli.session import with_queue

Type = Annotated[str, Parameter(help="A type whose keys take turns.")]


def list_(type: Type, /, *, query: Query = None, common: Common = COMMON) -> None:
    """List the keys of a type whose weight is not 1."""
    page = page_of(common, v1("types", type, "weights"), q=query)
    print_list(common, page, _columns, "all keys have weight 1: `holdfast weight set` changes it")


def set_(
    type: Type,
    key: Annotated[str, Parameter(help="The key; '' is that of tasks without a key.")],
    weight: Annotated[int, Parameter(help="Tasks of one turn, 1 to 1000.")],
    /,
    *,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Set how many tasks a key starts in one turn, from the next claim on."""

    async def work(found: TaskQueue) -> dict[str, Any]:
        calls = await calls_of(found, dry_run=given.dry_run)
        body = {"key": key, "weight": weight, "reason": given.reason}
        return dict((await calls.call("PUT", v1("types", type, "weights"), body)).body)

    item = with_queue(common, work)
    lines = [(key, f"starts {weight} tasks of '{type}' in a turn")]
    Printer(common, dry_run=given.dry_run).one(item, lines, name=key)


def _columns(now: float) -> list[Column]:
    return [
        Column("KEY", lambda item: item["key"]),
        Column("WEIGHT", lambda item: item["weight"]),
        Column("SET", lambda item: relative(item["set_at"], now)),
        Column("BY", lambda item: item["set_by"], flex=True),
    ]
