"""The link of a remote worker against a gateway whose connections end at any message."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.clock import SystemClock
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.ids import Ids
from holdfast.core.task import RunId
from holdfast.core.worker.protocol import Receiver, Reception, ack_of, receive
from holdfast.core.worker.wire import (
    AnswerFrame,
    Ask,
    CallFrame,
    ClaimedTask,
    ErrorFrame,
    GatewayMessage,
    Hello,
    Offer,
    Renew,
    Renewed,
    SyncMessage,
    TaskChange,
    Welcome,
    WorkerMessage,
)
from holdfast.remote.gateways import Gateways
from holdfast.remote.link import Link
from holdfast.remote.losses import Losses
from holdfast.remote.owner import Served

BOUND_SECONDS = 30.0
"""For what hangs, not a measure."""


class Quick(SystemClock):
    """A clock whose pauses end at once."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Owner:
    """An engine that only remembers what it lost."""

    def __init__(self) -> None:
        self.lost: set[RunId] = set()

    def served(self) -> Served:
        return Served(types=("t",), queues=("default",), slots=1, definitions_json="[]")

    def held(self) -> list[RunId]:
        return []

    def lose(self, losses: Losses) -> None:
        self.lost |= losses.keys()

    def obey(self, command: object) -> None: ...

    def drain(self) -> None: ...

    def joined(self, credential: str) -> None: ...

    def connected(self) -> None: ...

    def failed(self, error: Exception) -> None: ...


class Gateway:
    """Applies messages by the rules. `faults`: after how many messages each connection ends, and whether the
    last one was received; a repeated answer is sent now and then."""

    def __init__(self, faults: list[tuple[int, bool, bool]]) -> None:
        self.faults = deque(faults)
        self.receiver = Receiver(1)
        self.applied: list[str] = []
        self.given_back: list[str] = []
        self.claims: dict[str, tuple[ClaimedTask, ...]] = {}
        self.calls: dict[int, int] = {}

    def answers(self, message: WorkerMessage) -> list[GatewayMessage]:
        match message:
            case Hello():
                through = self.receiver.applied_through
                return [Welcome(incarnation=1, applied_through=through, node="w", gateway="g")]
            case SyncMessage():
                outcome, after = receive(self.receiver, message.incarnation, message.sequence)
                assert after is not None
                self.receiver = after
                if outcome is Reception.APPLY:
                    names = [change.task_id for change in message.changes.task]
                    self.applied += [name for name in names if name.startswith("c")]
                    self.given_back += [name for name in names if not name.startswith("c")]
                return [ack_of(outcome, after, message.sequence)]
            case Ask():
                made = (ClaimedTask(task_id=f"task-{len(self.claims)}", fence=1, lease_ms=9_000),)
                tasks = self.claims.setdefault(message.claim_id, made)
                return [Offer(claim_id=message.claim_id, tasks=tasks)]
            case CallFrame():
                self.calls[message.n] = self.calls.get(message.n, 0) + 1
                return [AnswerFrame(n=message.n, value_json=str(message.n))]
            case _:
                return []


class Connection:
    """A channel to that gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        fault = gateway.faults.popleft() if gateway.faults else (10**9, True, False)
        self._left, self._receives_last, self._repeats = fault
        self._back: asyncio.Queue[GatewayMessage | None] = asyncio.Queue()

    async def send(self, message: WorkerMessage) -> None:
        if self._left < 0:
            raise GatewayUnavailable("the connection is gone")
        self._left -= 1
        if self._left >= 0:
            for answer in self._gateway.answers(message):
                self._back.put_nowait(answer)
                if self._repeats and isinstance(answer, Offer | AnswerFrame):
                    self._back.put_nowait(answer)
            return
        if self._receives_last:
            self._gateway.answers(message)  # carried out; its answer is lost
        self._back.put_nowait(None)

    async def receive(self) -> GatewayMessage:
        message = await self._back.get()
        if message is None:
            raise GatewayUnavailable("the connection ended")
        return message

    async def close(self) -> None:
        self._left = -1
        self._back.put_nowait(None)


FAULTS = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=8)
WORK = st.lists(st.sampled_from(["report", "ask", "call"]), min_size=1, max_size=12)


@settings(max_examples=60)
@given(FAULTS, WORK)
def test_every_request_is_answered_and_takes_effect_once(
    faults: list[tuple[int, bool, bool]], work: list[str]
) -> None:
    async def play() -> None:
        gateway = Gateway(faults)

        async def connect(url: str, token: str, ping: float) -> Connection:
            del url, token, ping
            return Connection(gateway)

        link = Link(
            Gateways(("http://h:1",), "token"),
            Quick(),
            Ids(random.Random(1)),
            name="w",
            lease_seconds=9.0,
            owner=Owner(),
            open_channel=connect,
        )
        while not link.is_connected:  # the engine starts after its first connection
            with suppress(GatewayUnavailable):
                await link.open()
        running = asyncio.create_task(link.run())
        requests = [asyncio.create_task(request(link, n, kind)) for n, kind in enumerate(work)]
        async with asyncio.timeout(BOUND_SECONDS):
            answers = await asyncio.gather(*requests)
        await link.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        reports = [f"c{n}" for n, kind in enumerate(work) if kind == "report"]
        assert sorted(gateway.applied) == sorted(reports), "each change once"
        offered = [answer for answer in answers if isinstance(answer, str)]
        assert len(set(offered)) == len(offered) == work.count("ask") == len(gateway.claims)
        assert gateway.given_back == [], "a repeated offer gives back no task that runs"

    asyncio.run(play())


class Refusing(Gateway):
    """Refuses the first ask and the first renewal, and goes on."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked: list[str] = []
        self.renewals = 0

    def answers(self, message: WorkerMessage) -> list[GatewayMessage]:
        if isinstance(message, Ask):
            self.asked.append(message.claim_id)
            if len(self.asked) == 1:
                return [ErrorFrame(code="store-unavailable", claim_id=message.claim_id)]
        if isinstance(message, Renew):
            self.renewals += 1
            if self.renewals == 1:
                return [ErrorFrame(code="store-unavailable")]
            return [Renewed(lease_ms=9_000)]
        return super().answers(message)


async def test_a_refused_request_leaves_the_connection() -> None:
    gateway = Refusing()

    async def connect(url: str, token: str, ping: float) -> Connection:
        del url, token, ping
        return Connection(gateway)

    link = Link(
        Gateways(("http://h:1",), "token"),
        Quick(),
        Ids(random.Random(1)),
        name="w",
        lease_seconds=9.0,
        owner=Owner(),
        open_channel=connect,
    )
    await link.open()
    running = asyncio.create_task(link.run())
    async with asyncio.timeout(BOUND_SECONDS):
        offered = await link.ask(1, 1.0)
        with pytest.raises(GatewayUnavailable):
            await link.renew([], 0, 1)
        assert (await link.renew([], 0, 1)).lease_seconds == 9.0
    assert [task.task_id for task in offered.tasks] == ["task-0"]
    assert gateway.asked == [gateway.asked[0]] * 2, "the same claim id"
    assert link.connections == 1
    await link.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def request(link: Link, n: int, kind: str) -> Any:
    match kind:
        case "report":
            await link.report([TaskChange(task_id=f"c{n}", fence=1, status="completed")])
            return None
        case "ask":
            offered = await link.ask(1, 1.0)
            return offered.tasks[0].task_id
        case _:
            assert await link.call("parents", RunId("t", 1)) > 0
            return None
