"""`holdfast type list`: the types that `enqueue` takes."""

from __future__ import annotations

from holdfast.cli.api import v1
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import COMMON, Common, Query
from holdfast.cli.output.table import Column

COLUMNS = [
    Column("TYPE", lambda item: item["name"]),
    Column("QUEUE", lambda item: item["queue"]),
]


def list_(*, query: Query = None, common: Common = COMMON) -> None:
    """List the types of tasks that workers have registered, each with its queue."""
    page = page_of(common, v1("types"), q=query)
    print_list(common, page, COLUMNS, "no types: `holdfast worker MODULE:QUEUE` registers its own")
