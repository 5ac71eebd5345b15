"""The network at the level of messages: late, lost, doubled, out of order, cut in one direction.

Promises: what arrives, and when, follows from the seed; a message to a node that has died since it was
sent is gone. A call is two messages, so that an answer can be lost when the work is done.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.sim.draw import Draw
from holdfast.sim.loop import SimLoop
from holdfast.sim.trace import Trace

T = TypeVar("T")
CALL_SECONDS: Final = 10.0
"""After this a caller takes the other side for gone."""


class Silence(Exception):
    """The one who serves went away in the middle: nobody gets an answer."""


class Weather(msgspec.Struct):
    """How the network behaves just now."""

    latency_seconds: float = 0.001
    loss: float = 0.0
    double: float = 0.0
    slow: float = 0.0
    """Share of messages that take up to `slow_seconds`, so that others overtake them."""
    slow_seconds: float = 2.0


class Net:
    """Carries messages between nodes, by name."""

    def __init__(self, loop: SimLoop, draw: Draw, trace: Trace) -> None:
        self._loop = loop
        self._draw = draw
        self._loss, self._double = draw.stream("loss"), draw.stream("double")
        self._slow = draw.stream("slow")
        self._trace = trace
        self.weather = Weather()
        self._nobody = contextvars.Context()
        """A message on its way belongs to no node."""
        self._on_silence: Callable[[], None] = lambda: None
        self._cut: set[tuple[str, str]] = set()
        self._clogged: dict[tuple[str, str], float] = {}
        self._alive: dict[str, int] = {}
        """The incarnation that a node is in."""

    # -- who is there ------------------------------------------------------------------------------

    def join(self, node: str, incarnation: int) -> None:
        self._alive[node] = incarnation

    def leave(self, node: str) -> None:
        self._alive.pop(node, None)

    def when_silent(self, call: Callable[[], None]) -> None:
        """What to do when the one who serves goes away in the middle of it."""
        self._on_silence = call

    # -- faults ------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Nothing gets through in this direction."""
        self._cut.add((source, target))

    def mend(self, one: str, other: str) -> None:
        """Both directions work again."""
        self._cut -= {(one, other), (other, one)}

    def clog(self, source: str, target: str, seconds: float) -> None:
        """What is sent in this direction arrives only after so long."""
        self._clogged[source, target] = self._loop.time() + seconds

    def heal(self) -> None:
        self._cut.clear()
        self._clogged.clear()
        self.weather = Weather()

    # -- messages ----------------------------------------------------------------------------------

    def send(self, source: str, target: str, what: str, deliver: Callable[[], None]) -> None:
        """Calls `deliver` at the target, perhaps: never, later than others, twice."""
        if (source, target) in self._cut:
            self._trace.message("cut", source, target, what)
            return
        if self._loss.chance(self.weather.loss):
            self._trace.message("lost", source, target, what)
            return
        copies = 1
        if self._double.chance(self.weather.double):
            self._trace.message("doubled", source, target, what)
            copies = 2
        for _ in range(copies):
            self._loop.call_later(
                self._delay(source, target),
                self._arrive,
                target,
                self._alive.get(target),
                deliver,
                context=self._nobody,
            )

    def _delay(self, source: str, target: str) -> float:
        delay = self._draw.wait(self.weather.latency_seconds)
        if self._slow.chance(self.weather.slow):
            self._trace.sometimes("late", "message")
            delay += self._slow.between(0.0, self.weather.slow_seconds)
        until = self._clogged.get((source, target), 0.0)
        return max(delay, until - self._loop.time())

    def _arrive(self, target: str, incarnation: int | None, deliver: Callable[[], None]) -> None:
        if incarnation is not None and self._alive.get(target) == incarnation:
            deliver()

    async def call(self, source: str, target: str, what: str, serve: Callable[[], T]) -> T:
        """Runs `serve` at the target and brings back what it answers or raises."""
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(value: Any, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        def work() -> None:
            value: Any = None
            failure: Exception | None = None
            try:
                value = serve()
            except Silence:
                self._on_silence()
                return
            except Exception as error:
                failure = error
            self.send(target, source, f"answer to {what}", lambda: settle(value, failure))

        def give_up() -> None:
            settle(None, StoreUnavailable(f"no answer to {what} within {CALL_SECONDS:g} s"))

        self.send(source, target, what, work)
        patience = self._loop.call_later(CALL_SECONDS, give_up)
        try:
            found: T = await answer
            return found
        finally:
            patience.cancel()
