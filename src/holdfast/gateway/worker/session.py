"""One connection of a worker, without its transport: messages in, messages out.

Promises: an acknowledgement is sent after the commit, in order, one for all messages that it covers. A
refused request gets an `error` message and the session goes on. A worker that ignores the window, or whose
incarnation has ended, is ended with a typed error. What one session does changes nothing for another.
Never: takes the node or the project from a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from holdfast.core.check import check_text, check_whole
from holdfast.core.errors import Forbidden, Malformed, RateLimited, SlowConsumer
from holdfast.core.speaking import Voice
from holdfast.core.transition import Refusal
from holdfast.core.wire import WHOLE_MAX
from holdfast.core.worker.protocol import Reception, Window
from holdfast.core.worker.wire import (
    CHANGES_MAX,
    PROTOCOL,
    AnswerFrame,
    Ask,
    CallFrame,
    CommandAck,
    CommandFrame,
    ErrorFrame,
    GatewayMessage,
    Goodbye,
    Hello,
    Offer,
    Ping,
    Pong,
    Renew,
    Renewed,
    SyncAck,
    SyncMessage,
    Welcome,
    WorkerMessage,
    change_count,
)
from holdfast.errors import BatchTooLarge, HoldfastError, StoreBusy, StoreUnavailable
from holdfast.gateway.shown import error_frame, shown_detail
from holdfast.gateway.worker.credential import CredentialWatch, Recheck, always
from holdfast.gateway.worker.in_flight import InFlight
from holdfast.gateway.worker.outlet import Outlet
from holdfast.gateway.worker.service import Greeted, WorkerService, not_speaking, stop_all
from holdfast.gateway.worker.speaker import Speaker
from holdfast.sync.errors import NodeFenced, UnknownNode
from holdfast.sync.worker.messages import Inbound, MessageAnswer

REQUESTS_MAX: Final = 16
"""Asks and renewals that a session answers at the same time."""
COMMIT_SECONDS: Final = 30.0
"""How long the end of a session waits for messages that need a row which another transaction holds."""
FLUSH_SECONDS: Final = 5.0
"""How long the end of a session waits for the peer to take what is queued."""
_ENDS: Final = (Malformed, Forbidden, RateLimited, NodeFenced, UnknownNode)
"""Errors of a message that end the session."""
PROTOCOLS: Final = ("", PROTOCOL, "holdfast.sync.v1")

Received = tuple[WorkerMessage | HoldfastError, int]
"""A message, or why it could not be read, and its size in bytes."""
Send = Callable[[GatewayMessage], Awaitable[None]]


class WorkerSession:
    """A worker's connection. `run` ends with the connection, or raises why the gateway ends it."""

    def __init__(
        self,
        service: WorkerService,
        speaker: Speaker,
        *,
        window: Window | None = None,
        is_lasting: bool = True,
        recheck: Recheck = always,
        on_joined: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._service = service
        self._speaker = speaker
        self._in_flight = InFlight(window or service.window)
        self._is_lasting = is_lasting
        self._watch = CredentialWatch(service.clock, recheck, self._fail, on_joined)
        self._asks: dict[str, asyncio.Event] = {}
        """Asks that wait for work, by claim id. The event ends the wait."""
        self._hello: Hello | None = None
        self._incarnation = 0
        self._outlet = Outlet(service.clock)
        self._put = self._outlet.put
        self._commits: set[asyncio.Future[MessageAnswer]] = set()
        self._requests = 0
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, incoming: AsyncIterator[Received], send: Send) -> None:
        """Serves the connection until its input ends and every request is answered."""
        reader = asyncio.create_task(self._read(incoming))
        writer = asyncio.create_task(self._write(send))
        if self._is_lasting:
            self._spawn(self._watch.run())
        try:
            await asyncio.wait({reader, writer, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and (error := reader.exception()) is not None:
                self._fail(error)
            if reader.done() and not self._end.done():
                await self._answered()
            self._outlet.finish()
            # A peer that reads nothing must not hold the session.
            await asyncio.wait({writer}, timeout=self._flush_seconds())
            if self._end.done():
                self._end.result()
            if writer.done():
                writer.result()
        finally:
            self._service.leave(self._speaker.node, self)
            await stop_all([reader, writer, *self._tasks])
            if self._end.done():
                self._end.exception()  # it was raised above, or the connection is gone
            else:
                self._end.cancel()

    def end(self, error: HoldfastError) -> None:
        """See `service.ServedSession`."""
        self._fail(error)

    def push(self, message: GatewayMessage) -> None:
        """See `service.ServedSession`."""
        self._put(message)

    def recheck(self) -> None:
        """See `service.ServedSession`."""
        self._watch.soon()

    # -- in ----------------------------------------------------------------------------------------

    async def _read(self, incoming: AsyncIterator[Received]) -> None:
        async for message, size in incoming:
            try:
                if isinstance(message, HoldfastError):
                    raise message
                if isinstance(message, Goodbye):
                    return
                await self._receive(message, size)
            except _ENDS:
                raise
            except StoreUnavailable as error:
                if isinstance(message, Hello):
                    raise
                self._refuse(error)
            except HoldfastError as error:
                self._refuse(error)
            # Each message may lead to answers: a worker that takes none is not read further.
            await self._outlet.room()

    async def _receive(self, message: WorkerMessage, size: int) -> None:
        match message:
            case Hello():
                await self._greet(message)
            case SyncMessage():
                self._sync(message, size)
            case Ask(withdraw=True):
                if (ended := self._asks.get(message.claim_id)) is not None:
                    ended.set()
            case Ask():
                self._start(self._ask(message), message.claim_id)
            case Renew():
                self._start(self._renew(message))
            case CommandAck():
                check_text("outcome", message.outcome, most=50)
                await self._service.commands.acknowledge(self._voice, message)
            case Ping():
                self._put(Pong(n=message.n, position=str(await self._service.position())))
            case CallFrame():
                self._start(self._call(message))
            case Goodbye():
                pass

    async def _greet(self, hello: Hello) -> None:
        self._speaker = self._speaker.named(hello.worker_id)
        if hello.protocol not in PROTOCOLS:
            raise Malformed(f"protocol '{hello.protocol}' is not served: use {PROTOCOL}")
        check_whole("incarnation", hello.incarnation, least=0, most=WHOLE_MAX)
        greeting, credential = await self._service.hello(self._speaker, hello)
        if greeting.refused is not None or greeting.receiver is None:
            raise not_speaking(greeting.refused or Reception.UNKNOWN, self._speaker.node)
        is_first = self._hello is None
        self._hello = hello
        self._incarnation = greeting.receiver.incarnation
        self._watch.joined(credential, self._speaker.node)
        if self._is_lasting:
            self._service.enter(self._speaker.node, self, hello.held)
        position = await self._service.position()
        self._put(
            Welcome(
                applied_through=greeting.receiver.applied_through,
                window_frames=self._in_flight.window.frames,
                window_bytes=self._in_flight.window.bytes,
                heartbeat_ms=self._service.heartbeat_ms,
                position=str(position),
                epoch=position.epoch,
                gateway=self._service.gateway,
                lost=await self._service.losses(self._speaker, hello.held),
                incarnation=self._incarnation,
                node=self._speaker.node,
                credential=credential,
            )
        )
        if is_first and self._is_lasting:
            self._spawn(self._deliver())

    @property
    def node(self) -> str:
        """The node that this session speaks for. Empty until an administrator has named it."""
        return self._speaker.node

    @property
    def _voice(self) -> Voice:
        return Voice(self._speaker.node, self._incarnation or None)

    def _greeted(self, why: str) -> Greeted:
        """The worker of this session. UnknownNode if it has not said hello."""
        if self._hello is None:
            raise UnknownNode(f"say hello first: {why}")
        return Greeted(self._voice, self._speaker.project, self._hello)

    def _sync(self, message: SyncMessage, size: int) -> None:
        if message.worker_id:
            self._speaker.named(message.worker_id)
        incarnation = message.incarnation or self._incarnation
        if not incarnation:
            raise UnknownNode("say hello first: messages are numbered within an incarnation")
        if change_count(message.changes) > CHANGES_MAX:
            raise BatchTooLarge(f"a message has at most {CHANGES_MAX} changes")
        check_whole("sequence", message.sequence, least=0, most=WHOLE_MAX)
        check_whole("timestamp", message.timestamp, least=0, most=WHOLE_MAX)
        self._in_flight.add(size)
        if message.timestamp:
            self._service.heard_nodes.says_time(self._speaker.node, message.timestamp / 1000)
        self._service.taken.reported(self._speaker.node, message.changes)
        future = self._service.sync.put(
            Inbound(
                self._speaker.node,
                incarnation,
                message.sequence,
                message.changes,
                self._speaker.project,
            )
        )
        self._commits.add(future)
        future.add_done_callback(lambda done: self._committed(done, size))

    def _committed(self, done: asyncio.Future[MessageAnswer], size: int) -> None:
        self._commits.discard(done)
        self._in_flight.answered(size)
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._fail(error)  # no acknowledgement: the worker sends it again
            return
        answer = done.result()
        self._put(answer.ack)
        if answer.outcome in (Reception.FENCED, Reception.UNKNOWN):
            self._fail(not_speaking(answer.outcome, self._speaker.node))

    # -- requests that take their time -------------------------------------------------------------

    def _start(self, request: Coroutine[Any, Any, None], claim_id: str = "") -> None:
        if self._requests >= REQUESTS_MAX:
            request.close()
            text = f"at most {REQUESTS_MAX} requests of a worker wait: send it later"
            self._refuse(BatchTooLarge(text), claim_id)
            return
        self._requests += 1
        self._spawn(self._answer(request, claim_id))

    async def _answer(self, request: Coroutine[Any, Any, None], claim_id: str) -> None:
        try:
            await request
        except _ENDS as error:
            self._fail(error)
        except HoldfastError as error:
            self._refuse(error, claim_id)
        except Exception as error:
            self._fail(error)
        finally:
            self._requests -= 1

    async def _ask(self, ask: Ask) -> None:
        worker = self._greeted("it names the types that this worker runs")
        ended = self._asks.setdefault(ask.claim_id, asyncio.Event())
        try:
            tasks = await self._service.wait_for_tasks(worker, ask, ended)
        finally:
            self._asks.pop(ask.claim_id, None)
        if isinstance(tasks, Refusal):
            self._put(ErrorFrame(code=tasks.code, detail=tasks.message))
            tasks = []
        offered = await self._service.offered(tasks)
        notice = "" if offered else self._service.notice_of(self._speaker.node)
        self._put(Offer(claim_id=ask.claim_id, tasks=offered, notice=notice))

    async def _call(self, call: CallFrame) -> None:
        try:
            worker = self._greeted("runs belong to an incarnation")
            value = await self._service.calls.answer(worker.voice, worker.project, call)
            self._put(AnswerFrame(n=call.n, value_json=value))
        except (NodeFenced, UnknownNode):
            raise
        except HoldfastError as error:
            self._put(AnswerFrame(n=call.n, code=error.code, detail=shown_detail(error)))

    async def _renew(self, renew: Renew) -> None:
        worker = self._greeted("leases belong to an incarnation")
        if not await self._watch.check():
            return
        answer = await self._service.renew(worker, renew)
        position = await self._service.position()
        self._put(
            Renewed(
                kept=answer.kept,
                lease_ms=int(answer.lease_seconds * 1000),
                position=str(position),
            )
        )
        for lost in answer.lost:
            self._put(lost)
        for command in await self._service.commands.pending(self._speaker.node):
            self._put(command)

    async def _deliver(self) -> None:
        """Sends new commands at once. Those without an answer go out again with each renewal."""
        sent: set[str] = set()
        node = self._speaker.node
        try:
            while True:
                pending = {
                    command.id
                    if isinstance(command, CommandFrame)
                    else command.decision_id: command
                    for command in await self._service.commands.pending(node)
                }
                for name, command in pending.items():
                    if name not in sent:
                        await self._outlet.room()
                        self._put(command)
                sent = set(pending)
                await self._service.commands.wait(node)
        except HoldfastError as error:
            self._fail(error)

    # -- out ---------------------------------------------------------------------------------------

    def _refuse(self, error: HoldfastError, claim_id: str = "") -> None:
        self._put(error_frame(error, claim_id))

    async def _write(self, send: Send) -> None:
        while (message := await self._outlet.take()) is not None:
            if isinstance(message, SyncAck):
                self._in_flight.acknowledge()
            await send(message)

    def _flush_seconds(self) -> float:
        """How long the peer has to take what is queued."""
        error = self._end.exception() if self._end.done() else None
        return 0.0 if isinstance(error, SlowConsumer) else FLUSH_SECONDS

    async def _answered(self) -> None:
        """Waits until what was read has its answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMIT_SECONDS):
                while self._commits and not self._end.done():
                    waits: set[asyncio.Future[Any]] = {*self._commits, self._end}
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self._commits:
            # They may still be made: a repeat is known.
            self._fail(StoreBusy("a row that is needed is held: send the messages again"))
        if not self._is_lasting:
            # A request over HTTP waits for its tasks. A stream that has ended gets none.
            while self._requests and not self._end.done():
                await asyncio.wait({*self._tasks, self._end}, return_when=asyncio.FIRST_COMPLETED)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="holdfast-worker-request")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _fail(self, error: BaseException) -> None:
        """Ends the session after what is queued was sent."""
        if not self._end.done():
            self._end.set_exception(error)
