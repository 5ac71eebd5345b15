"""The claim of a task by an offline node: a lease that is renewed, and commands that come with it.

Promises: `lost` is set before the server may give the task to another node, judged by this machine's clock
from the moment before each request. The end of the run is in the node's log before it is sent, with the fence
of this claim. Never: two results of one claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

import msgspec

from holdfast.client.node.exchange import SyncReport
from holdfast.client.node.journal import Journal
from holdfast.client.node.report_log import HeldClaim
from holdfast.client.node.reports import Reports
from holdfast.client.node.wire import SyncWire
from holdfast.client.patience import is_passing
from holdfast.client.problems import problem_of
from holdfast.clock import Clock
from holdfast.core.check import check_text
from holdfast.core.errors import AlreadyLocked, TaskNotClaimable
from holdfast.core.exchange.item_wire import decode_item, encode_item
from holdfast.core.exchange.offline import Fields
from holdfast.core.failure import from_exception
from holdfast.errors import (
    Conflict,
    HoldfastError,
    LeaseLost,
    NotFound,
    QueueFull,
    StoreUnavailable,
)

T = TypeVar("T")
BEATS: Final = 3
"""Renewals in the time of one lease."""
RENEWAL: Final = "holdfast-claim"
"""The name of the asyncio task that renews a claim."""
SHIPPING: Final = "holdfast-claim-reports"
"""The name of the asyncio task that sends what a claim has written."""


class Command(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An act of an operator, for the runner."""

    id: str
    type: str
    task_id: str = ""
    reason: str = ""
    requested_by: str | None = None
    args: dict[str, Any] = {}
    fence: int | None = None


class Runner(Protocol):
    """The node of a claim."""

    @property
    def node_id(self) -> str: ...

    @property
    def reports(self) -> Reports: ...

    def set_status(
        self, task_id: str, status: str, *, result: Any = ..., error: str | None = None
    ) -> str: ...

    async def sync(self) -> SyncReport: ...


class Claim:
    """One claim. It is renewed until it ends: by `complete`, `fail` or `release`, or because it is lost, or
    because the node is closed. Use it in `async with`: leaving without an end releases the task."""

    def __init__(
        self, node: Runner, wire: SyncWire, journal: Journal, held: HeldClaim, clock: Clock
    ) -> None:
        self._node = node
        self._wire = wire
        self._journal = journal
        self._held = held
        self._clock = clock
        self._lease_ms = 0
        self._deadline = 0.0
        self._report: Fields = {}
        self._commands: dict[str, Command] = {}
        self._acks: list[Fields] = []
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self._beats: asyncio.Task[None] | None = None
        self._written = asyncio.Event()
        self._shipping: asyncio.Task[None] | None = None
        self._is_ended = False
        self.lost = asyncio.Event()
        """Set when the claim is no longer this node's: stop the work."""
        self.lost_reason = ""

    @classmethod
    async def take(
        cls,
        node: Runner,
        wire: SyncWire,
        journal: Journal,
        held: HeldClaim,
        *,
        lease_seconds: float,
        clock: Clock,
    ) -> Claim:
        claim = cls(node, wire, journal, held, clock)
        asked_at = clock.monotonic()
        body: Fields = {"lockDuration": round(lease_seconds * 1_000), "claimId": held.claim_id}
        try:
            answer = await wire.claim(held.task_id, {"nodeId": node.node_id, **body})
        except (AlreadyLocked, TaskNotClaimable, NotFound):
            journal.end_claim(held.task_id)
            raise
        lock = answer["lock"]
        claim._lease_ms = int(lock.get("lockDuration") or body["lockDuration"])
        claim._held = msgspec.structs.replace(held, fence=int(lock["fence"]))
        claim._extend(asked_at, int(lock["expiresInMs"]))
        journal.keep_claim(claim._held)
        claim._beats = asyncio.create_task(claim._keep(), name=RENEWAL)
        claim._shipping = asyncio.create_task(claim._ship(), name=SHIPPING)
        if node.reports.is_waiting(claim.task_id):
            claim._written.set()
        return claim

    @property
    def task_id(self) -> str:
        """The task."""
        return self._held.task_id

    @property
    def fence(self) -> int:
        """The number of the claim: the server takes results of the latest only."""
        return self._held.fence or 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop_renewal()
        if self._is_ended:
            return
        if self.lost.is_set():
            self._end()
        elif isinstance(error, Exception):
            await self.fail(from_exception("", error).message)
        else:
            await self.release("the runner left")

    # -- what a runner reports ---------------------------------------------------------------------

    def progress(
        self, done: float, *, phase: str | None = None, iteration: int | None = None
    ) -> None:
        """What the next heartbeat reports. InvalidInput for what the server would refuse."""
        self._note({"progress": done, "phase": phase, "iteration": iteration})

    def metrics(self, **totals: float) -> None:
        """Totals of this attempt, e.g. `tokens_used=1200`, which the next heartbeat reports. They only rise;
        those of several attempts add up. Without a connection they are not kept."""
        self._note({"metrics": {**self._report.get("metrics", {}), **totals}})

    async def output(self, data: str | bytes, stream: str = "stdout") -> None:
        """Writes to a stream of the run: `stdout`, `stderr` or `log`. The bytes are on the disk of the node
        when this returns, and are sent in the background, by `sync`, or before the end of the run. QueueFull
        if too much waits there; LeaseLost after the claim was lost."""
        await self._write(lambda: self._node.reports.add_output(self._held, data, stream))

    async def checkpoint(self, type: str, data: Any = None, note: str = "") -> str:
        """Saves a checkpoint under a name, e.g. "plan-ready", and returns its id. It is on the disk of the
        node when this returns, and is sent like output. On the server its data is what a later run of the
        task starts from."""
        return await self._write(lambda: self._node.reports.add_point(self._held, type, data, note))

    async def _write(self, write: Callable[[], T]) -> T:
        self._check_held()
        try:
            answer = write()
        except QueueFull:
            # The server may be there, and only slower than the runner.
            await self._send_written()
            self._check_held()
            answer = write()
        self._written.set()
        return answer

    def _check_held(self) -> None:
        if self._is_ended:
            raise Conflict(f"the claim of task {self.task_id} has ended already")
        if self.lost.is_set():
            raise LeaseLost(f"the claim of task {self.task_id} was lost: {self.lost_reason}")

    def _note(self, given: Fields) -> None:
        given = {name: value for name, value in given.items() if value is not None}
        decode_item(encode_item({"id": self.task_id, "expectedVersion": 1, **given}))
        self._report |= given
        self._wake.set()

    async def complete(self, result: Any = None) -> None:
        """Ends the run. Without a connection the result waits in the log for the next sync."""
        await self._finish("completed", result=result)

    async def fail(self, error: str) -> None:
        """Ends the run with an error. The task is tried again if it has attempts left."""
        await self._finish("failed", error=error)

    async def _finish(self, status: str, **outcome: Any) -> None:
        if self._is_ended:
            raise Conflict(f"the claim of task {self.task_id} has ended already")
        if "metrics" in self._report:
            with suppress(HoldfastError):
                await self._beat()
        self._node.set_status(self.task_id, status, **outcome)
        self._end()
        await self.stop_renewal()
        try:
            await self._node.sync()
        except StoreUnavailable:
            # It is in the log: a later sync sends it.
            return

    async def release(self, reason: str = "") -> bool:
        """Gives the task back. Returns whether it was still held."""
        body = self._body(reason=check_text("reason", reason))
        await self.stop_renewal()
        is_sent = await self._send_written()
        self._end()
        if not is_sent:
            # There is no connection, and the lease ends by itself.
            return False
        try:
            return bool((await self._wire.release(self.task_id, body)).get("released"))
        except StoreUnavailable:
            # The lease ends by itself.
            return False

    async def next_command(self) -> Command:
        """Waits for an act of an operator. Acknowledge it when it is done."""
        while True:
            for command in self._commands.values():
                return command
            self._arrived.clear()
            await self._arrived.wait()

    def acknowledge(self, command: Command, outcome: str = "done", detail: str = "") -> None:
        """Says what became of a command; the next heartbeat sends it."""
        self._commands.pop(command.id, None)
        self._acks.append({"id": command.id, "outcome": outcome, "detail": detail})
        self._wake.set()

    # -- the lease ---------------------------------------------------------------------------------

    @property
    def is_renewed(self) -> bool:
        """Whether its lease is extended."""
        return self._beats is not None and not self._beats.done()

    async def stop_renewal(self) -> None:
        """Lets the lease end by itself, unless the claim has ended."""
        running = [task for task in (self._beats, self._shipping) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _keep(self) -> None:
        """Renews until the claim is lost."""
        while not self.lost.is_set():
            left = self._deadline - self._clock.monotonic()
            if left <= 0:
                self._lose("expired")
                return
            await self._clock.wait(self._wake, min(self._lease_ms / 1_000 / BEATS, left))
            self._wake.clear()
            try:
                await self._beat()
            except LeaseLost as error:
                self._take_commands(problem_of(error).get("commands"))
                self._lose(str(problem_of(error).get("reason") or error.code))
            except StoreUnavailable:
                # Tried again until the lease ends.
                continue
            except HoldfastError as error:
                self._lose(error.code)

    async def _ship(self) -> None:
        """Sends what the claim has written, until it is lost."""
        while not self.lost.is_set():
            await self._written.wait()
            self._written.clear()
            await self._send_written()

    async def _send_written(self) -> bool:
        """Returns whether the server has answered all of it."""
        try:
            refusals = await self._node.reports.send(self._wire, self.task_id)
        except HoldfastError as error:
            if not is_passing(error):
                self._lose(error.code)
            # What is not sent waits for a connection: the next heartbeat that is answered shows it.
            return False
        for refusal in refusals:
            if isinstance(refusal, LeaseLost | NotFound):
                self._lose(str(problem_of(refusal).get("reason") or refusal.code))
        return True

    async def _beat(self) -> None:
        asked_at = self._clock.monotonic()
        report, self._report = self._report, {}
        acks = list(self._acks)
        body = self._body(lockDuration=self._lease_ms, **report)
        if acks:
            body["acks"] = acks
        try:
            async with asyncio.timeout(max(0.0, self._deadline - asked_at)):
                answer = await self._wire.heartbeat(self.task_id, body)
        except BaseException as error:
            self._report = report | self._report
            if isinstance(error, TimeoutError):
                raise StoreUnavailable("no answer before the end of the lease") from None
            raise
        del self._acks[: len(acks)]
        self._extend(asked_at, int(answer["expiresInMs"]))
        self._take_commands(answer.get("commands"))
        if self._node.reports.is_waiting(self.task_id):
            self._written.set()

    def _extend(self, asked_at: float, expires_in_ms: int) -> None:
        self._deadline = asked_at + expires_in_ms / 1_000

    def _take_commands(self, commands: Any) -> None:
        """A command comes with every heartbeat until it is acknowledged: it is kept once."""
        answered = {ack["id"] for ack in self._acks}
        for command in msgspec.convert(commands or [], list[Command]):
            if command.id not in answered:
                self._commands.setdefault(command.id, command)
        if self._commands:
            self._arrived.set()

    def _lose(self, reason: str) -> None:
        self.lost_reason = reason
        self.lost.set()

    def _end(self) -> None:
        self._is_ended = True
        self._journal.end_claim(self.task_id)

    def _body(self, **fields: Any) -> Fields:
        names = {"nodeId": self._node.node_id, "fence": self.fence, "claimId": self._held.claim_id}
        return {**names, **fields}
