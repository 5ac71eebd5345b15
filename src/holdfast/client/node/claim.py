"""The claim of a task by an offline node: a lease that is renewed, and commands that come with it.

Promises: `lost` is set before the server may give the task to another node, judged by this machine's clock
from the moment before each request. A renewal that does not reach the server is tried again until then. The
end of the run is in the node's log before it is sent, with the fence of this claim. What became of a command
is sent, also after the claim was lost. Never: two results of one claim; writes under another claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

import msgspec

from holdfast.client.node.commands import Command, Commands
from holdfast.client.node.exchange import SyncReport
from holdfast.client.node.journal import Journal
from holdfast.client.node.report_log import HeldClaim
from holdfast.client.node.reports import Reports
from holdfast.client.node.wire import SyncWire
from holdfast.client.patience import is_passing
from holdfast.client.problems import problem_of
from holdfast.clock import Clock
from holdfast.core.check import check_text
from holdfast.core.errors import AlreadyLocked, NodeFenced, TaskNotClaimable
from holdfast.core.exchange.item_wire import decode_item, encode_item
from holdfast.core.exchange.offline import Fields
from holdfast.core.failure import from_exception
from holdfast.core.lease import margin_seconds, renewal_interval, retry_in
from holdfast.errors import (
    Conflict,
    HoldfastError,
    LeaseLost,
    NotFound,
    QueueFull,
    StoreUnavailable,
)

T = TypeVar("T")
RENEWAL: Final = "holdfast-claim"
"""The name of the asyncio task that renews a claim."""
SHIPPING: Final = "holdfast-claim-reports"
"""The name of the asyncio task that sends what a claim has written."""


class Runner(Protocol):
    """The node of a claim."""

    @property
    def node_id(self) -> str: ...

    @property
    def reports(self) -> Reports: ...

    @property
    def heartbeat_seconds(self) -> float: ...

    def end_run(
        self,
        claim: HeldClaim | None,
        task_id: str,
        status: str,
        *,
        result: Any = ...,
        error: str | None = None,
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
        self._commands = Commands()
        self._wake = asyncio.Event()
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
            journal.end_claim(held)
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
        self._commands.acknowledge_all("the runner left")
        try:
            await self._leave(error)
        finally:
            await self._send_acks()

    async def _leave(self, error: BaseException | None) -> None:
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
        if self._report or self._commands.acks:
            with suppress(HoldfastError):
                await self._beat()
        self._node.end_run(self._held, self.task_id, status, **outcome)
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
        """Waits for an act of an operator. Acknowledge it when it is done; leaving the block acknowledges the
        rest. LeaseLost if there is none and the claim is lost."""
        while (command := self._commands.first()) is None:
            self._check_held()
            self._commands.stirred.clear()
            await self._commands.stirred.wait()
        return command

    def acknowledge(self, command: Command, outcome: str = "done", detail: str = "") -> None:
        """Says what became of a command; the next heartbeat sends it, or the end of the block."""
        self._commands.acknowledge(command.id, outcome, detail)
        self._wake.set()

    # -- the lease ---------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether the task is this node's, as far as it knows, and the run has not ended."""
        return not self._is_ended and not self.lost.is_set()

    async def stop_renewal(self) -> None:
        """Lets the lease end by itself, unless the claim has ended."""
        running = [task for task in (self._beats, self._shipping) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _keep(self) -> None:
        """Renews until the claim is lost."""
        failures = 0
        while not self.lost.is_set():
            left = self._deadline - self._clock.monotonic()
            if left <= 0:
                self.lose("expired")
                return
            await self._clock.wait(self._wake, min(self._pause(failures), left))
            self._wake.clear()
            failures = 0 if await self._renewed() else failures + 1

    def _pause(self, failures: int) -> float:
        """Seconds until the next renewal. A heartbeat also shows that the node lives, and brings commands."""
        seconds = self._lease_ms / 1_000
        if failures:
            return retry_in(seconds, self._held.claim_id, failures - 1)
        return min(renewal_interval(seconds), self._node.heartbeat_seconds)

    async def _renewed(self) -> bool:
        """Whether the server has answered."""
        try:
            await self._beat()
        except LeaseLost as error:
            self._commands.take(problem_of(error).get("commands"))
            self.lose(str(problem_of(error).get("reason") or error.code))
        except HoldfastError as error:
            if may_pass(error):
                return False
            self.lose(error.code)
        return True

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
            if not may_pass(error):
                self.lose(error.code)
            # What is not sent waits for a connection: the next heartbeat that is answered shows it.
            return False
        for refusal in refusals:
            if isinstance(refusal, LeaseLost | NotFound):
                self.lose(str(problem_of(refusal).get("reason") or refusal.code))
        return True

    async def _beat(self) -> None:
        asked_at = self._clock.monotonic()
        report, self._report = self._report, {}
        acks = list(self._commands.acks)
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
            if isinstance(error, LeaseLost) and not isinstance(error, NodeFenced):
                del self._commands.acks[: len(acks)]
            raise
        del self._commands.acks[: len(acks)]
        self._extend(asked_at, int(answer["expiresInMs"]))
        self._commands.take(answer.get("commands"))
        if self._node.reports.is_waiting(self.task_id):
            self._written.set()

    async def _send_acks(self) -> None:
        """Sends them when the lease is not renewed any more: the heartbeat of a lost claim takes them, too.
        Without a connection the server ends the commands by itself."""
        if acks := self._commands.acks:
            with suppress(HoldfastError):
                await self._wire.heartbeat(self.task_id, self._body(acks=acks))
            self._commands.acks = []

    def _extend(self, asked_at: float, expires_in_ms: int) -> None:
        seconds = expires_in_ms / 1_000
        self._deadline = asked_at + seconds - margin_seconds(seconds)

    def lose(self, reason: str) -> None:
        """The task is not this node's any more."""
        if not self.lost.is_set():
            self.lost_reason = reason
            self.lost.set()
            self._commands.stirred.set()

    def _end(self) -> None:
        self._is_ended = True
        self._journal.end_claim(self._held)
        self._commands.stirred.set()

    def _body(self, **fields: Any) -> Fields:
        names = {"nodeId": self._node.node_id, "fence": self.fence, "claimId": self._held.claim_id}
        return {**names, **fields}


def may_pass(error: HoldfastError) -> bool:
    """Whether the claim may still be this node's: an error of a gateway itself decides nothing about it."""
    return is_passing(error) or error.__dict__.get("status", 0) >= 500
