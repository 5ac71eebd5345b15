"""Lists of the API for commands: pages until enough rows are there.

Promises: `-q` is judged by the gateway, or by the same operation in this process. A page that is not full is
followed by the next one, so that `--limit` counts rows that match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of
from holdfast.cli.options import Common
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.session import with_queue


class Page(NamedTuple):
    """Rows of a list."""

    items: list[Item]
    next: str | None
    """Where the list goes on. None: nowhere."""
    now: float
    """The time of the store."""
    is_search: bool = False


def page_of(common: Common, path: str, *, limit: int | None = None, **query: object) -> Page:
    """Up to `limit` rows of a list. None: of a list without pages."""

    async def work(queue: TaskQueue) -> Page:
        calls, items = await calls_of(queue), list[Item]()
        given = dict(query)
        while True:
            asked = given if limit is None else {**given, "limit": limit - len(items)}
            body = (await calls.call("GET", path, query=asked)).body
            items += body["items"]
            given["after"] = body["next"]
            if body["next"] is None or limit is None or len(items) >= limit or not query.get("q"):
                now = await queue.parts.sessions.now()
                return Page(items, body["next"], now, bool(query.get("q")))

    return with_queue(common, work)


def print_list(
    common: Common,
    page: Page,
    columns: Sequence[Column] | Callable[[float], Sequence[Column]],
    empty: str,
) -> None:
    """Prints the rows, and how to go on. `columns`: a call gets the time of the store. `empty`: what a
    list without rows prints; a search leaves the part after the colon out."""
    printer = Printer(common)
    shown = columns(page.now) if callable(columns) else columns
    printer.rows(page.items, shown, empty=empty.partition(":")[0] if page.is_search else empty)
    if page.next is not None:
        printer.note(f"more: --after {page.next}")


def default_state(state: str | None, query: str | None, default: str) -> str | None:
    """The state that a list shows: that of the option, else the default unless the query names one. `all` is
    None."""
    if state is None:
        return default if query is None or "state:" not in query else None
    return None if state == "all" else state


def with_terms(query: str | None, **terms: object) -> str | None:
    """The query with a term for each option that is given."""
    words = [f'{name}:"{value}"' for name, value in terms.items() if value is not None]
    return " ".join([f"({query})" if query and words else query or "", *words]).strip() or None
