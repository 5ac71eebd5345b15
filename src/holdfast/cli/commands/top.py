"""`holdfast top`: what runs, what waits and what needs a person, at one look.

Promises: a terminal gets a picture of bounded height, drawn in place until `q` or Ctrl-C; the most important
lines come first. Elsewhere, and with `-o`, it is printed once. Rates count between two pictures.
Never: changes anything, or lists tasks: the figures are those that the store keeps.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.top_view import JSON_LISTS, Seen, picture
from holdfast.cli.keyboard import Keyboard, is_interactive
from holdfast.cli.options import COMMON, Common, Flag
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls
from holdfast.core.errors import Forbidden

if TYPE_CHECKING:
    from rich.console import RenderableType

QUIT: Final = frozenset("qQ\x1b")
PIPE_HEIGHT: Final = 10_000
LISTS: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "queues": (v1("queues"), {}),
    "jobs": (v1("jobs"), {"q": "status:RUNNING,PAUSED,WAIT_APPROVAL", "limit": 10}),
    "causes": (v1("dead-letters", "groups"), {"limit": 10}),
    "decisions": (v1("decisions"), {"q": "state:open", "limit": 100}),
    "conflicts": (v1("conflicts"), {"q": "state:open", "limit": 100}),
    "approvals": (v1("approvals"), {"limit": 100}),
}


def top(
    *,
    every: Annotated[
        str, Parameter(help="How often the picture is drawn, e.g. 500ms or 5s.")
    ] = "2s",
    once: Annotated[Flag, Parameter(help="Print it once, also at a terminal.")] = False,
    common: Common = COMMON,
) -> None:
    """Show queues, jobs, causes of death and what waits for people, drawn in place. `q` or Ctrl-C ends it."""
    seconds = values.seconds(every, "--every")
    printer = Printer(common)
    if once or not printer.is_table or not sys.stdout.isatty():
        seen = with_queue(common, _once)
        if printer.is_table:
            for line, style in picture(seen, printer.width, PIPE_HEIGHT):
                print(printer.paint(line, style if line else ""))
        else:
            item = {**seen.stats, **{name: seen.lists[name] for name in JSON_LISTS}}
            printer.one(item, [], name=item["feed_head"])
        return
    try:
        with_queue(common, lambda queue: _draw(queue, printer, seconds))
    except KeyboardInterrupt:
        return


async def _once(queue: TaskQueue) -> Seen:
    return await _look(queue, await calls_of(queue), None)


async def _look(queue: TaskQueue, calls: Calls, before: Seen | None) -> Seen:
    stats: dict[str, Any] = (await calls.call("GET", v1("stats"))).body
    lists = {name: await _items(calls, *asked) for name, asked in LISTS.items()}
    return Seen(stats, lists, await queue.parts.sessions.now(), before)


async def _items(calls: Calls, path: str, query: dict[str, object]) -> list[dict[str, Any]]:
    """The rows of a list. None of one that the token may not read."""
    try:
        items: list[dict[str, Any]] = (await calls.call("GET", path, query=query)).body["items"]
    except Forbidden:
        return []
    return sorted(items, key=itemgetter("name")) if path == v1("queues") else items


async def _draw(queue: TaskQueue, printer: Printer, seconds: float) -> None:
    from rich.console import Console
    from rich.live import Live

    colours: Literal["auto"] | None = "auto" if printer.colour else None
    console = Console(color_system=colours, highlight=False, markup=False, emoji=False)
    calls = await calls_of(queue)
    seen: Seen | None = None
    with ExitStack() as stack:
        keyboard = stack.enter_context(Keyboard()) if is_interactive() else None
        live = stack.enter_context(Live(console=console, auto_refresh=False, screen=True))
        while True:
            seen = await _look(queue, calls, seen)
            width, height = console.size
            live.update(_drawn(picture(seen, width, height)), refresh=True)
            if await _is_over(keyboard, seconds):
                return


def _drawn(lines: list[tuple[str, str]]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(line, style=style, no_wrap=True, overflow="crop") for line, style in lines))


async def _is_over(keyboard: Keyboard | None, seconds: float) -> bool:
    """Whether a key ends it, pressed within the time."""
    if keyboard is None:
        await asyncio.sleep(seconds)
        return False
    try:
        async with asyncio.timeout(seconds):
            return not (key := await keyboard.key()) or key in QUIT
    except TimeoutError:
        return False
