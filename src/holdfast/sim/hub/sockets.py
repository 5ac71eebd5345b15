"""Connections between simulated nodes: frames in order, until the connection breaks.

Promises: a side gets a prefix of what the other one sent, each frame once. A lost packet is sent again a few
times; then the connection is reset, or silent until a ping has no answer. A process that dies resets its
connections, or takes them with its machine without a word. A frozen process answers no ping.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from holdfast.sim.draw import Draw
from holdfast.sim.node import Cluster, Node

CONNECT_SECONDS: Final = 5.0
RESENDS_MAX: Final = 3
RESEND_SECONDS: Final = (0.2, 2.0)
LOST: Final = 1006
"""The close code of a connection that broke."""


class Frame(NamedTuple):
    """One frame: `accept`, `refuse`, `text`, `ping`, `pong` or `close`."""

    kind: str
    text: str = ""
    code: int = 0


class Request(NamedTuple):
    """A request to a gateway: an HTTP call, or the start of a WebSocket."""

    method: str
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""
    subprotocol: str = ""


class End:
    """One side of a connection."""

    def __init__(self, wire: Wire, node: Node, ping_seconds: float) -> None:
        self.node = node
        self.life = node.life
        self.closed: Frame | None = None
        """How the connection ended for this side."""
        self.peer: End
        self._wire = wire
        self._context = contextvars.copy_context()
        self._sent = 0
        self._expected = 0
        self._early: dict[int, Frame] = {}
        self._inbox: deque[Frame] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ping_seconds = ping_seconds
        self._is_answered = True

    def keep_alive(self) -> None:
        """Pings the other side from now on."""
        self._wire.loop.call_later(self._ping_seconds, self._tick, context=self._context)

    def _tick(self) -> None:
        if self.closed is not None:
            return
        if not self._is_answered:
            self._wire.net.reconnected(self.node.name, self.peer.node.name)
            self.break_off()
            return
        self._is_answered = False
        self.send(Frame("ping"))
        self.keep_alive()

    def send(self, frame: Frame) -> None:
        """Sends a frame. What is sent on a broken connection is lost."""
        if self.closed is None:
            self._wire.transmit(self, self._sent, frame, 0)
            self._sent += 1

    def close(self, code: int, reason: str) -> None:
        """Closes after what was sent."""
        self.send(Frame("close", reason, code))
        self.ended(Frame("close", reason, code))

    def arrived(self, number: int, frame: Frame) -> None:
        """A packet came. The process takes it when it runs."""
        if number >= self._expected:
            self._early[number] = frame
        while (following := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            self._wire.loop.call_soon(self._take, following, context=self._context)

    def _take(self, frame: Frame) -> None:
        if self.closed is not None:
            return
        self._is_answered = True
        match frame.kind:
            case "ping":
                self.send(Frame("pong"))
            case "pong":
                pass
            case "close":
                self.ended(frame)
            case _:
                self._inbox.append(frame)
                self._wake()

    def break_off(self) -> None:
        """The connection is broken for this side."""
        self.ended(Frame("close", "connection lost", LOST))

    def reset_later(self) -> None:
        """A reset came from the network. The process sees it when it runs."""
        self._wire.loop.call_soon(self.break_off, context=self._context)

    def ended(self, close: Frame) -> None:
        if self.closed is None:
            self.closed = close
            self._wire.forget()
            self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def receive(self) -> Frame:
        """The next frame; the close after the last one."""
        while not self._inbox:
            if self.closed is not None:
                return self.closed
            self._waiting = self._wire.loop.create_future()
            await self._waiting
        return self._inbox.popleft()


class Wire:
    """A connection."""

    def __init__(self, sockets: Sockets, client: Node, ping_seconds: float) -> None:
        self._sockets = sockets
        self.loop = sockets.cluster.loop
        self.net = sockets.cluster.net
        self.client = End(self, client, ping_seconds)
        self.server: End | None = None
        self.opened: asyncio.Future[None] = self.loop.create_future()

    def accept(self, server: Node, ping_seconds: float) -> End:
        """The process of the server takes the connection."""
        self.server = End(self, server, ping_seconds)
        self.server.peer, self.client.peer = self.client, self.server
        if not self.opened.done():
            self.opened.set_result(None)
        return self.server

    def transmit(self, source: End, number: int, frame: Frame, attempt: int) -> None:
        target = source.peer
        deliver = partial(target.arrived, number, frame)
        if self.net.send(source.node.name, target.node.name, "frame", deliver):
            return
        draw = self._sockets.draw
        if attempt < RESENDS_MAX:
            pause = draw.between(*RESEND_SECONDS)
            again = partial(self.transmit, source, number, frame, attempt + 1)
            self.loop.call_later(pause, again, context=contextvars.Context())
        elif draw.chance(0.5):
            self._sockets.cluster.trace.sometimes("connection-reset")
            source.reset_later()
            target.reset_later()

    def other(self, life: str) -> End | None:
        """The side that is not of this process; None if neither is."""
        if self.server is None:
            return None
        if self.client.life == life:
            return self.server
        return self.client if self.server.life == life else None

    def forget(self) -> None:
        if self.server is not None and self.server.closed and self.client.closed:
            self._sockets.wires.pop(self, None)


Accept = Callable[[Wire, Request], None]
Serve = Callable[[Request, Callable[[object], None]], None]


class Listener(NamedTuple):
    """What a process that listens does with what comes, in its own context."""

    accept: Accept
    serve: Serve
    context: contextvars.Context


class Sockets:
    """The connections of a cluster."""

    def __init__(self, cluster: Cluster, draw: Draw) -> None:
        self.cluster = cluster
        self.draw = draw
        self.listeners: dict[str, Listener] = {}
        """By the name of the process."""
        self.wires: dict[Wire, None] = {}

    def listen(self, node: Node, accept: Accept, serve: Serve) -> None:
        self.listeners[node.life] = Listener(accept, serve, contextvars.copy_context())

    def died(self, node: Node) -> None:
        """A process has died: its machine resets its connections, unless it is gone as well."""
        for wire in list(self.wires):
            peer = wire.other(node.life)
            if peer is None:
                continue
            del self.wires[wire]
            if self.draw.chance(0.8):
                self.cluster.net.send(node.name, peer.node.name, "reset", peer.reset_later)

    async def connect(
        self, client: Node, target: str, request: Request, ping_seconds: float
    ) -> tuple[End, Frame]:
        """Connects. Returns the answer of the server too. OSError or TimeoutError if there is none."""
        wire = Wire(self, client, ping_seconds)
        self.arrive(client, target, partial(self._accept, wire, request))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await wire.opened
                answer = await wire.client.receive()
        except TimeoutError:
            self.cluster.net.reconnected(client.name, target)
            wire.client.break_off()
            raise
        wire.client.keep_alive()
        return wire.client, answer

    def arrive(self, client: Node, target: str, deliver: Callable[[Listener], None]) -> None:
        """Brings something to the process that listens at a node. OSError if nothing listens there."""
        node = self.cluster.nodes[target]
        if node.is_up and node.life not in self.listeners:
            raise ConnectionRefusedError(f"{target} does not listen yet")
        if not node.is_up and self.draw.chance(0.5):
            raise ConnectionRefusedError(f"{target} is down")

        def come() -> None:
            listener = self.listeners.get(node.life)
            if listener is not None:
                loop = self.cluster.loop
                loop.call_soon(deliver, listener, context=listener.context)

        self.cluster.net.send(client.name, target, "request", come)

    def _accept(self, wire: Wire, request: Request, listener: Listener) -> None:
        if wire.server is None:  # a packet that came twice opens one connection
            self.wires[wire] = None
            listener.accept(wire, request)
