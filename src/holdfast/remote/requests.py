"""Requests of a link that wait for their answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from holdfast.client.problems import problem
from holdfast.core import codec
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.task import RunId
from holdfast.core.worker.wire import (
    AnswerFrame,
    Ask,
    CallFrame,
    ClaimedTask,
    HeldRunState,
    Hello,
    Offer,
    Renewed,
    TaskChange,
)
from holdfast.errors import HoldfastError, LeaseLost

ACCEPTED_MAX: Final = 64
"""Offers that are remembered, so that a repeat gives back no task that runs."""


class Offered(NamedTuple):
    """The tasks of an offer, with the monotonic time before they were asked for."""

    tasks: tuple[ClaimedTask, ...]
    asked_at: float
    notice: str = ""
    """Why the node gets no tasks."""


class Greeting(NamedTuple):
    """What a worker needs to speak to its gateway over another connection."""

    url: str
    """The gateway that the link uses, with `http` or `https`."""
    token: str
    hello: Hello


class Renewal(NamedTuple):
    """The answer to a renewal, with the monotonic time before it was sent. A run that is not kept was lost,
    which the gateway says apart, or could not be renewed now."""

    sent_at: float
    kept: set[RunId]
    lease_seconds: float


@dataclass(slots=True, eq=False)
class Asked:
    ask: Ask
    future: asyncio.Future[Offered | None]
    """None: the gateway has refused the ask."""
    sent_at: float = 0.0
    is_withdrawn: bool = False
    is_refused: bool = False
    """The gateway does not have the ask. It is sent again after a pause."""

    def end(self) -> None:
        """Ends the ask without tasks."""
        if not self.future.done():
            self.future.set_result(Offered((), self.sent_at))

    def refuse(self) -> None:
        """Waits for another answer. The ask keeps its claim id: the claim may have been made."""
        self.future, self.is_refused = asyncio.get_running_loop().create_future(), True
        if self.is_withdrawn:
            self.end()


@dataclass(slots=True, eq=False)
class Called:
    frame: CallFrame
    future: asyncio.Future[Any] = field(repr=False)


class Pending:
    """The requests of one link. Asks and calls survive a connection, renewals do not."""

    def __init__(self) -> None:
        self.asked: dict[str, Asked] = {}
        self.called: dict[int, Called] = {}
        self._renewing: asyncio.Future[Renewed] | None = None
        self._accepted: deque[str] = deque(maxlen=ACCEPTED_MAX)

    def begin(self, ask: Ask) -> Asked:
        asked = Asked(ask, asyncio.get_running_loop().create_future())
        self.asked[ask.claim_id] = asked
        return asked

    def offered(self, offer: Offer) -> list[TaskChange]:
        """Ends the ask of an offer. Returns the tasks to give back, if no dispatcher waits for them."""
        if offer.claim_id in self._accepted:
            return []  # a repeat: its tasks run
        asked = self.asked.get(offer.claim_id)
        if asked is None or asked.future.done():
            return [_given_back(task) for task in offer.tasks]
        asked.future.set_result(Offered(offer.tasks, asked.sent_at, offer.notice))
        self._accepted.append(offer.claim_id)
        return []

    def answered(self, answer: AnswerFrame) -> None:
        called = self.called.get(answer.n)
        if called is None or called.future.done():
            return
        if answer.code:
            fields = {"code": answer.code, "detail": answer.detail}
            called.future.set_exception(problem(500, fields))
        else:
            called.future.set_result(codec.loads(answer.value_json))

    @property
    def is_renewing(self) -> bool:
        return self._renewing is not None

    async def renewal(self, seconds: float) -> Renewed:
        """Waits for the answer to a renewal. TimeoutError if there is none in time."""
        self._renewing = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await self._renewing
        finally:
            self._renewing = None

    def renewed(self, answer: Renewed) -> None:
        if self._renewing is not None and not self._renewing.done():
            self._renewing.set_result(answer)

    def refused(self, claim_id: str, error: HoldfastError) -> None:
        """Ends the request that an error of the gateway is about, if it is one that is sent again."""
        if claim_id:
            asked = self.asked.get(claim_id)
            if asked is not None and not asked.future.done():
                asked.future.set_result(None)
        elif self._renewing is not None and not self._renewing.done():
            self._renewing.set_exception(GatewayUnavailable(str(error)))

    def disconnected(self) -> None:
        """Ends what does not survive the connection."""
        if self._renewing is not None and not self._renewing.done():
            self._renewing.set_exception(GatewayUnavailable("the connection ended"))
        for asked in self.asked.values():
            if asked.is_withdrawn:
                asked.end()

    def fail(self, error: HoldfastError) -> None:
        """Ends everything: there will be no connection any more."""
        for asked in self.asked.values():
            asked.end()
        for called in self.called.values():
            if not called.future.done():
                called.future.set_exception(LeaseLost(f"this worker was shut out: {error}"))


def held_of(runs: Iterable[RunId]) -> tuple[HeldRunState, ...]:
    """Runs as a message names them."""
    return tuple(HeldRunState(task_id=run.task_id, fence=run.fence) for run in runs)


def _given_back(task: ClaimedTask) -> TaskChange:
    """Returns a task that was offered but not started."""
    reason = "the worker did not wait for the offer any more"
    return TaskChange(task_id=task.task_id, fence=task.fence, status="queued", reason=reason)
