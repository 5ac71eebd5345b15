"""The simulated network: messages can be late, lost, duplicated, reordered or cut in one direction.

Promises: delivery is determined by the seed; a message to a node that has died since it was sent is lost.
A call is two messages, so the answer can be lost after the work is done.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.sim.disturbances import Disturbances
from holdfast.sim.draw import Draw
from holdfast.sim.loop import SimLoop
from holdfast.sim.trace import Trace

T = TypeVar("T")
CALL_SECONDS: Final = 10.0
"""Timeout of a call."""


class ServerGone(Exception):
    """The server died during a call: the caller gets no answer."""


class NetConditions(msgspec.Struct, frozen=True):
    """Current behaviour of the network."""

    latency_seconds: float = 0.001
    loss: float = 0.0
    double: float = 0.0
    slow: float = 0.0
    """Share of messages that take up to `slow_seconds`, so that others arrive first."""
    slow_seconds: float = 2.0


class Net:
    """Delivers messages between nodes, by name."""

    def __init__(self, loop: SimLoop, draw: Draw, trace: Trace) -> None:
        self._loop = loop
        self._draw = draw
        self._loss, self._double = draw.stream("loss"), draw.stream("double")
        self._slow = draw.stream("slow")
        self._trace = trace
        self._conditions = NetConditions()
        self.is_calm = True
        """Whether no fault delays or loses messages now: one that is sent arrives, unless its target dies."""
        self.disturbances = Disturbances()
        self._on_server_gone: Callable[[], None] = lambda: None
        self._cut: set[tuple[str, str]] = set()
        self._clogged: dict[tuple[str, str], float] = {}
        self._half_open: set[frozenset[str]] = set()
        """Connections that are dead without either side knowing."""
        self._alive: dict[str, int] = {}
        """The incarnation of each live node."""

    # -- membership ------------------------------------------------------------------------------

    def join(self, node: str, incarnation: int) -> None:
        self._alive[node] = incarnation
        self.disturbances.begin(node, self._loop.time())

    def leave(self, node: str) -> None:
        self._alive.pop(node, None)
        self.disturbances.disturb(node, self._loop.time())

    def is_there(self, node: str) -> bool:
        return node in self._alive

    def when_server_gone(self, call: Callable[[], None]) -> None:
        """Registers a callback for a server that dies during a call."""
        self._on_server_gone = call

    # -- faults ------------------------------------------------------------------------------------

    @property
    def conditions(self) -> NetConditions:
        return self._conditions

    @conditions.setter
    def conditions(self, conditions: NetConditions) -> None:
        self._conditions = conditions
        self._changed()

    def _changed(self) -> None:
        """Faults have changed. `is_calm` is kept, because each call asks for it twice."""
        self.is_calm = (
            not (self._cut or self._half_open or self._clogged)
            and self._conditions.loss <= 0.0
            and self._conditions.slow <= 0.0
        )

    def cut(self, source: str, target: str) -> None:
        """Nothing gets through in this direction."""
        self._cut.add((source, target))
        self._changed()

    def mend(self, one: str, other: str) -> None:
        """Both directions work again."""
        self._cut -= {(one, other), (other, one)}
        self._changed()

    def clog(self, source: str, target: str, seconds: float) -> None:
        """Delays all messages in this direction until `seconds` have passed."""
        self._clogged[source, target] = self._loop.time() + seconds
        self._changed()

    def half_open(self, one: str, other: str) -> None:
        """The connection is dead and neither side knows: all messages are lost until a caller times out and
        connects again."""
        self._half_open.add(frozenset((one, other)))
        self._changed()

    def reconnected(self, one: str, other: str) -> None:
        """A side found that the connection is dead, and makes another one."""
        self._half_open.discard(frozenset((one, other)))
        self._changed()

    def heal(self) -> None:
        self._cut.clear()
        self._clogged.clear()
        self._half_open.clear()
        self.conditions = NetConditions()  # sets `is_calm` too

    # -- messages ----------------------------------------------------------------------------------

    def send(
        self,
        source: str,
        target: str,
        what: str,
        deliver: Callable[[], None],
        *,
        when_lost: Callable[[], None] | None = None,
    ) -> bool:
        """Calls `deliver` at the target: late, twice or not at all, as the faults decide. Returns whether the
        message is on its way. `when_lost` is called if the target has died when it arrives."""
        conditions = self._conditions
        is_harmless = not self._cut and not self._half_open and conditions.loss <= 0.0
        if not is_harmless and (fate := self._fate(source, target)) is not None:
            self._trace.message(fate, source, target, what)
            self.disturbances.harmed(source, target, what, self._loop.time())
            return False
        if conditions.double > 0.0 and self._double.chance(conditions.double):
            self._trace.message("doubled", source, target, what)
            self._post((source, target, what), deliver)
        self._post((source, target, what), deliver, when_lost)
        return True

    def _fate(self, source: str, target: str) -> str | None:
        """The fault that loses this message, if any."""
        if (source, target) in self._cut:
            return "cut"
        if self._half_open and frozenset((source, target)) in self._half_open:
            return "half-open"
        return "lost" if self._loss.chance(self._conditions.loss) else None

    def _post(
        self,
        way: tuple[str, str, str],
        deliver: Callable[[], None],
        when_lost: Callable[[], None] | None = None,
    ) -> None:
        """Sends a message on its way: from whom, to whom, what."""
        delay = self._draw.wait(self._conditions.latency_seconds)
        if self._clogged or self._conditions.slow > 0.0:
            delay = self._delay(*way, delay)
        incarnation = self._alive.get(way[1])
        self._loop.post(delay, self._arrive, way, incarnation, deliver, when_lost)

    def post_calmly(
        self, way: tuple[str, str, str], deliver: Callable[[], None], when_lost: Callable[[], None]
    ) -> None:
        """`send` while `is_calm`: no fault is looked for again. Calls send most messages, so this says in one
        step what `send` and `_post` do, with the same draws."""
        conditions = self._conditions
        if conditions.double > 0.0:
            self.send(*way, deliver, when_lost=when_lost)
            return
        delay = self._draw.wait(conditions.latency_seconds)
        self._loop.post(delay, self._arrive, way, self._alive.get(way[1]), deliver, when_lost)

    def _delay(self, source: str, target: str, what: str, delay: float) -> float:
        """The delay of a message that faults may make longer."""
        now = self._loop.at
        is_late = self._slow.chance(self._conditions.slow)
        if is_late:
            self._trace.sometimes("late", "message")
            delay += self._slow.between(0.0, self._conditions.slow_seconds)
        until = self._clogged.get((source, target), 0.0)
        if is_late or until > now:
            delay = max(delay, until - now)
            self.disturbances.harmed(source, target, what, now + delay)
        return delay

    def _arrive(
        self,
        way: tuple[str, str, str],
        incarnation: int | None,
        deliver: Callable[[], None],
        when_lost: Callable[[], None] | None,
    ) -> None:
        source, target, what = way
        if incarnation is not None and self._alive.get(target) == incarnation:
            deliver()
            return
        self.disturbances.harmed(source, target, what, self._loop.time())
        if when_lost is not None:
            when_lost()

    async def call(self, source: str, target: str, what: str, serve: Callable[[], T]) -> T:
        """Runs `serve` at the target and returns its answer or raises its error."""
        call = _Call(self, self._loop, (source, target, what), serve)
        try:
            value: T = await call.answer
            return value
        finally:
            if call.timer is not None:
                call.timer.cancel()
            if call.answer.cancelled():  # The caller was cancelled first, and connects again.
                self.reconnected(source, target)

    def server_gone(self, source: str) -> None:
        """The server died while it served a call from here."""
        self.disturbances.disturb(source, self._loop.at)
        self._on_server_gone()

    def refused(self, source: str) -> None:
        """The store refused a call from here."""
        self.disturbances.disturb(source, self._loop.at)


class _Call:
    """A call and its answer. The caller waits `CALL_SECONDS` for the answer. It has no timer while its
    message and the answer are known to arrive."""

    __slots__ = ("_context", "_loop", "_net", "_serve", "_until", "_way", "answer", "timer")

    def __init__(
        self, net: Net, loop: SimLoop, way: tuple[str, str, str], serve: Callable[[], Any]
    ) -> None:
        self._net, self._loop, self._way, self._serve = net, loop, way, serve
        self._until = loop.at + CALL_SECONDS
        self.timer: asyncio.TimerHandle | None = None
        self._context = contextvars.copy_context()
        """The timer is the caller's: it dies and stops with it."""
        self.answer: asyncio.Future[Any] = asyncio.Future(loop=loop)
        self._send(way, self._work)

    def _work(self) -> None:
        source, target, what = self._way
        value: Any = None
        failure: Exception | None = None
        try:
            value = self._serve()
        except ServerGone:
            self._net.server_gone(source)
            self._unsure()
            return
        except Exception as error:
            failure = error
            if isinstance(error, StoreUnavailable):
                self._net.refused(source)
        self._send((target, source, "answer to " + what), partial(self._settle, value, failure))

    def _send(self, way: tuple[str, str, str], deliver: Callable[[], None]) -> None:
        if self._net.is_calm:
            self._net.post_calmly(way, deliver, self._unsure)
        else:
            self._unsure()
            self._net.send(*way, deliver, when_lost=self._unsure)

    def _settle(self, value: Any, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)

    def _unsure(self) -> None:
        """The answer may not arrive: the caller needs its timer."""
        if self.timer is None and not self.answer.done():
            self.timer = self._loop.call_at(self._until, self._give_up, context=self._context)

    def _give_up(self) -> None:
        source, target, what = self._way
        self._net.reconnected(source, target)
        self._settle(None, StoreUnavailable(f"no answer to {what} within {CALL_SECONDS:g} s"))
