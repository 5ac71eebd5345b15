"""The link of a worker to its gateways: one connection at a time, to any of them.

Promises: after any interruption the link connects again, to the next gateway, and goes on where it was: what
was not acknowledged is sent again, asks and calls too. A claim whose answer was lost gets the same offer. A
credential that does not count any more, or a newer incarnation of the node, ends the link for good.
Never: judges a run; its owner does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from holdfast.clock import Clock
from holdfast.core import codec
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.ids import Ids
from holdfast.core.lease import renewal_interval
from holdfast.core.task import RunId
from holdfast.core.token import TokenKind, token_kind
from holdfast.core.watching import backoff_seconds
from holdfast.core.worker.protocol import Window
from holdfast.core.worker.wire import (
    PROTOCOL,
    AnswerFrame,
    Ask,
    CallFrame,
    Change,
    CommandAck,
    CommandFrame,
    DrainFrame,
    ErrorFrame,
    GatewayMessage,
    Goodbye,
    Hello,
    LostRun,
    Offer,
    Renew,
    Renewed,
    SyncAck,
    Welcome,
    WorkerMessage,
)
from holdfast.errors import BadConfig, HoldfastError
from holdfast.remote.channel import ENDING, FATAL, UNKNOWN_NODE, Channel, Connect, error_of, greet
from holdfast.remote.gateways import Gateways
from holdfast.remote.losses import NO_GATEWAY, STARTS_OVER, lost_runs
from holdfast.remote.outbox import Fate, Outbox
from holdfast.remote.outgoing import Outgoing
from holdfast.remote.owner import LinkOwner, Served
from holdfast.remote.requests import Asked, Called, Greeting, Offered, Pending, Renewal, held_of

GOODBYE_SECONDS: Final = 1.0
CALLS_MAX: Final = 8
"""Calls of handlers in progress. The gateway bounds the requests of a worker."""
RECONNECT_SECONDS_MAX: Final = 2.0
"""The longest pause between two connections: leases go on meanwhile."""
REFUSED_SECONDS: Final = 1.0
"""The pause before an ask that the gateway has refused is sent again."""
log = logging.getLogger("holdfast.worker")


class Link:
    """One for each remote engine."""

    def __init__(
        self,
        gateways: Gateways,
        clock: Clock,
        ids: Ids,
        *,
        name: str,
        lease_seconds: float,
        owner: LinkOwner,
        open_channel: Connect,
    ) -> None:
        """`name`: of the node, if the token may name one."""
        self._gateways, self._clock, self._ids = gateways, clock, ids
        self._name = name
        self._token = gateways.token
        self._lease_ms = int(lease_seconds * 1000)
        self._renewal_seconds = renewal_interval(lease_seconds)
        self._owner = owner
        self._open_channel = open_channel
        self._boot_id = ids.secret()
        self._turn = 0
        self._outbox = Outbox()
        self._channel: Channel | None = None
        self._out = Outgoing()
        self._pending = Pending()
        self._calls = 0
        self._calling = asyncio.Semaphore(CALLS_MAX)
        self._served: Served | None = None
        self.failure: HoldfastError | None = None
        """Why the link has ended for good."""
        self.node = ""
        self.gateway = ""
        self.changed = asyncio.Event()
        """Set when a connection was established."""
        self.connections = 0

    @property
    def is_connected(self) -> bool:
        return self._channel is not None

    @property
    def has_failed(self) -> bool:
        return self.failure is not None

    def greeting(self) -> Greeting:
        """What another connection of this worker says first. Any thread may call this."""
        hello = self._hello(self._served or self._owner.served(), ())
        urls = self._gateways.urls
        return Greeting(urls[self._turn % len(urls)], self._token, hello)

    # -- for the engine ----------------------------------------------------------------------------

    async def ask(self, slots: int, wait_seconds: float) -> Offered:
        """Asks for tasks and waits for the offer, across reconnects."""
        ask = Ask(
            slots=slots,
            lease_ms=self._lease_ms,
            claim_id=f"{self._boot_id[:8]}-{self._ids.secret()}",
            wait_ms=int(wait_seconds * 1000),
        )
        self._check()
        asked = self._pending.begin(ask)
        try:
            if self.is_connected:
                self._announce()
                self._send_ask(asked)
            while (offered := await asked.future) is None:
                await self._ask_again(asked)
            return offered
        finally:
            self._pending.asked.pop(ask.claim_id, None)

    async def _ask_again(self, asked: Asked) -> None:
        """Sends a refused ask again. After a reconnect it was sent already."""
        connections = self.connections
        asked.refuse()
        await self._clock.sleep(REFUSED_SECONDS)
        asked.is_refused = False
        if self.is_connected and self.connections == connections and not asked.future.done():
            self._send_ask(asked)

    def withdraw(self) -> None:
        """Ends the waiting of asks: the gateway answers them now."""
        for asked in self._pending.asked.values():
            asked.is_withdrawn = True
            if self.is_connected and not asked.is_refused:
                self._post(Ask(claim_id=asked.ask.claim_id, withdraw=True))
            else:
                asked.end()

    async def renew(self, held: Sequence[RunId], running: int, slots: int) -> Renewal:
        """Renews the leases of these runs. GatewayUnavailable while there is no connection."""
        self._check()
        if not self.is_connected or self._pending.is_renewing:
            raise GatewayUnavailable("no gateway is connected")
        self._announce()
        sent_at = self._clock.monotonic()
        self._post(Renew(held=held_of(held), lease_ms=self._lease_ms, running=running, slots=slots))
        try:
            renewed = await self._pending.renewal(self._renewal_seconds)
        except TimeoutError:
            await self._hang_up()
            raise GatewayUnavailable("the gateway did not answer a renewal in time") from None
        kept = {RunId(run.task_id, run.fence) for run in renewed.kept}
        return Renewal(sent_at, kept, renewed.lease_ms / 1000)

    async def report(self, changes: Sequence[Change]) -> list[Fate]:
        """Sends changes and waits until they are committed or refused, across reconnects."""
        self._check()
        futures = self._outbox.put(changes)
        self._flush()
        return [await future for future in futures]

    async def call(self, verb: str, run: RunId, **arguments: object) -> Any:
        """A request that is not a change. It is repeated after a reconnect: the gateway knows repeats."""
        self._check()
        self._calls += 1
        frame = CallFrame(
            n=self._calls,
            verb=verb,
            task_id=run.task_id,
            fence=run.fence,
            args_json=codec.dumps(arguments),
        )
        called = Called(frame, asyncio.get_running_loop().create_future())
        async with self._calling:
            self._pending.called[frame.n] = called
            try:
                self._post(frame)
                return await called.future
            finally:
                self._pending.called.pop(frame.n, None)

    def acknowledge(self, ack: CommandAck) -> None:
        """What became of a command. Without a connection the gateway sends the command again."""
        self._post(ack)

    # -- the connection ----------------------------------------------------------------------------

    async def open(self) -> None:
        """Connects for the first time. Raises why no gateway accepts this worker."""
        failure: HoldfastError | None = None
        for _ in self._gateways.urls:
            try:
                await self._connect()
                return
            except (BadConfig, GatewayUnavailable) as error:
                failure = failure if isinstance(failure, BadConfig) else error
                self._turn += 1
        assert failure is not None
        raise failure

    async def run(self) -> None:
        """Serves the connection, and connects again when it ends. Returns after a refusal for good."""
        attempt = 0
        while self.failure is None:
            try:
                if self._channel is None:
                    await self._connect()
                attempt = 0
                await self._serve()
            except HoldfastError as error:
                await self._hang_up()
                if error.code in FATAL:
                    self._fail(error)
                    return
                if error.code == UNKNOWN_NODE:
                    self._start_over()
                if attempt & (attempt + 1) == 0:  # At once, then ever more rarely.
                    log.warning("gateway %s: %s; retrying", self._gateways.at(self._turn), error)
            self._turn += 1
            pause = backoff_seconds(attempt, self._ids.random_unit())
            await self._clock.sleep(min(pause, RECONNECT_SECONDS_MAX))
            attempt += 1

    async def close(self) -> None:
        """Says goodbye. What was reported before has been acknowledged."""
        self.failure = self.failure or GatewayUnavailable("the link is closed")
        if self._channel is not None:
            with suppress(HoldfastError, TimeoutError, OSError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._channel.send(Goodbye(reason="the worker stops"))
        await self._hang_up()

    async def _connect(self) -> None:
        url = self._gateways.websocket_url(self._turn)
        channel = await self._open_channel(url, self._token, max(1.0, self._renewal_seconds))
        served = self._owner.served()
        held = [] if not self._outbox.incarnation else list(self._owner.held())
        welcome = await greet(channel, self._hello(served, held))
        self._welcomed(channel, welcome, served, held)

    def _hello(self, served: Served, held: Sequence[RunId]) -> Hello:
        return Hello(
            worker_id=self.node or self._new_name(),
            incarnation=self._outbox.incarnation,
            boot_id=self._boot_id,
            types=served.types,
            queues=served.queues,
            slots=served.slots,
            held=held_of(held),
            protocol=PROTOCOL,
            definitions_json=served.definitions_json,
        )

    def _new_name(self) -> str:
        """A credential of a node names it. For another token each try has a new name: a join whose answer was
        lost has registered the one before."""
        is_bound = token_kind(self._token) is TokenKind.NODE
        return "" if is_bound else f"{self._name}:{self._ids.token()}"

    def _welcomed(
        self, channel: Channel, welcome: Welcome, served: Served, held: Sequence[RunId]
    ) -> None:
        """The connection is established: everything that waits is sent."""
        is_new = welcome.incarnation != self._outbox.incarnation
        self.node, self.gateway = welcome.node, welcome.gateway
        if welcome.credential:
            self._token = welcome.credential
            self._owner.joined(welcome.credential)
        self._served, self._channel = served, channel
        self.connections += 1
        self._out.clear()
        window = Window(welcome.window_frames, welcome.window_bytes)
        lost = lost_runs(welcome.lost)
        self._owner.lose(dict.fromkeys(held, STARTS_OVER) if is_new else lost)
        self._outbox.welcome(welcome.incarnation, window)
        self._flush()
        for asked in self._pending.asked.values():
            self._send_ask(asked)
        for called in self._pending.called.values():
            self._post(called.frame)
        self.changed.set()
        log.info("connected to gateway %s as %s", self._gateways.at(self._turn), self.node)
        self._owner.connected()

    async def _serve(self) -> None:
        channel = self._channel
        assert channel is not None
        writer = asyncio.create_task(self._out.run(channel), name="holdfast-link-writer")
        try:
            while True:
                self._receive(await channel.receive())
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    def _receive(self, message: GatewayMessage) -> None:
        match message:
            case SyncAck():
                self._outbox.acknowledge(message)
                self._flush()
            case Offer():
                if unclaimed := self._pending.offered(message):
                    self._outbox.put(unclaimed)
                    self._flush()
            case Renewed():
                self._pending.renewed(message)
            case LostRun():
                self._owner.lose(lost_runs([message]))
            case CommandFrame():
                if (ack := self._owner.obey(message)) is not None:
                    self._post(ack)
            case AnswerFrame():
                self._pending.answered(message)
            case ErrorFrame():
                self._refused(message)
            case DrainFrame(within_ms=0):
                self._owner.drain()
            case DrainFrame():
                raise GatewayUnavailable("it stops")
            case _:
                log.debug("the gateway sent %s", type(message).__name__)

    def _refused(self, frame: ErrorFrame) -> None:
        """Ends the refused request. An error that ends the session is raised."""
        if (error := error_of(frame)).code in ENDING:
            raise error
        log.warning("gateway %s refused: %s", self._gateways.at(self._turn), error)
        self._pending.refused(frame.claim_id, error)

    # -- out ---------------------------------------------------------------------------------------

    def _announce(self) -> None:
        """Says hello again when this worker serves other types than before."""
        served = self._owner.served()
        if served != self._served:
            self._served = served
            self._post(self._hello(served, ()))

    def _send_ask(self, asked: Asked) -> None:
        asked.sent_at = self._clock.monotonic()
        self._post(asked.ask)

    def _flush(self) -> None:
        for message in self._outbox.to_send(self._clock.now()) if self.is_connected else ():
            self._post(message)

    def _post(self, message: WorkerMessage) -> None:
        if self.is_connected:
            self._out.put(message)

    # -- ends --------------------------------------------------------------------------------------

    async def _hang_up(self) -> None:
        """Ends the connection. What waits for an answer goes on waiting, except renewals."""
        channel, self._channel = self._channel, None
        self._out.clear()
        self._pending.disconnected()
        if channel is not None:
            await channel.close()

    def _start_over(self) -> None:
        """The gateways do not know this incarnation: the next connection starts another one."""
        self._owner.lose(dict.fromkeys(self._owner.held(), STARTS_OVER))
        self._boot_id = self._ids.secret()
        self._outbox.drop()
        self._outbox.incarnation = 0

    def _fail(self, error: HoldfastError) -> None:
        """No gateway accepts this worker any more."""
        self.failure = error
        self._owner.lose(dict.fromkeys(self._owner.held(), NO_GATEWAY))
        self._outbox.drop()
        self._pending.fail(error)
        self._owner.failed(error)

    def _check(self) -> None:
        if self.failure is not None:
            raise GatewayUnavailable(f"the link to the gateway has ended: {self.failure}")
