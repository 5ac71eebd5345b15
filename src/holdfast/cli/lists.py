"""Lists of the API for commands: pages until enough rows are there.

Promises: `-q` is judged by the gateway, or by the same operation in this process. A page that is not full is
followed by the next one, so that `--limit` counts rows that match; `--limit 0` counts none and reads on to
the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of
from holdfast.cli.options import Common, Output
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.session import with_queue

ALL: Final = 0
"""The limit of a list that is read to its end."""
PAGE_MAX: Final = 1_000
"""The most rows that one call of the API answers."""
Read: TypeAlias = Callable[[str | None, int], Awaitable[tuple[list[Item], str | None]]]
"""Reads a page after a place, with a limit of rows: the rows, and where the list goes on."""


class Page(NamedTuple):
    """Rows of a list."""

    items: list[Item]
    next: str | None
    """Where the list goes on. None: nowhere."""
    now: float
    """The time of the store."""
    is_search: bool = False


def page_of(common: Common, path: str, *, limit: int | None = None, **query: object) -> Page:
    """Up to `limit` rows of a list; ALL: every row. None: of a list without pages."""

    async def work(queue: TaskQueue) -> Page:
        calls, items = await calls_of(queue), list[Item]()
        given = dict(query)
        while True:
            asked = given if limit is None else {**given, "limit": asked_of(limit, len(items))}
            body = (await calls.call("GET", path, query=asked)).body
            items += body["items"]
            given["after"] = body["next"]
            is_read = limit is None or (
                limit != ALL and (len(items) >= limit or not query.get("q"))
            )
            if body["next"] is None or is_read:
                now = await queue.parts.sessions.now()
                return Page(items, body["next"], now, bool(query.get("q")))

    return with_queue(common, work)


def asked_of(limit: int, found: int) -> int:
    """How many rows the next call asks for."""
    return PAGE_MAX if limit == ALL else limit - found


async def print_pages(
    printer: Printer,
    read: Read,
    columns: Sequence[Column],
    empty: str,
    *,
    after: str | None,
    limit: int,
    is_search: bool = False,
) -> int:
    """Prints `limit` rows, or with ALL every row, and says how many there were. One object or one id a line
    is printed page by page, so that a list of a million rows needs little memory. `is_search`: a page may
    have fewer rows than there are."""
    rows: list[Item] = []
    is_stream = limit == ALL and printer.output in (Output.JSONL, Output.NAME)
    count = 0
    while True:
        items, after = await read(after, asked_of(limit, count))
        count += len(items)
        if is_stream:
            printer.rows(items, columns, empty=empty)
        else:
            rows += items
        if after is None or (limit != ALL and (count >= limit or not is_search)):
            break
    if not is_stream:
        printer.rows(rows, columns, empty=empty)
    if after is not None:
        printer.note(f"more: --after {after}")
    return count


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
