"""What people and programs do during the run: enqueue, intervene, answer questions.

Every request is repeated under the same key until it is answered, at any gateway or at the store, and some
are repeated after their answer. All answers to one key must be the same.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from holdfast.client import Client
from holdfast.client.client import InterventionType
from holdfast.errors import HoldfastError
from holdfast.queue.queue import Queue
from proof.hub.plan import ADMIN, Plan

TYPES = ("quick", "quick", "quick", "in_thread", "slow", "slow", "flaky", "doomed", "asks")
INTERVENTIONS: tuple[InterventionType, ...] = ("ABORT", "PAUSE", "PAUSE", "RESUME", "RETRY")
RETRY_SECONDS = 0.2
INTERVENE_SECONDS = 0.6
RECENT = 8
T = TypeVar("T")


class Load:
    """The requests of a run, and their answers."""

    def __init__(self, plan: Plan, urls: Sequence[str], store: Queue) -> None:
        self.plan = plan
        self.store = store
        self.clients = [
            Client([*urls[nth:], *urls[:nth]], ADMIN, timeout_seconds=10.0)
            for nth in range(len(urls))
        ]
        self.answers: defaultdict[str, set[str]] = defaultdict(set)
        """Ids of tasks by idempotency key."""
        self.interventions: set[str] = set()
        """Ids of interventions that were acknowledged."""
        self.errors: defaultdict[str, int] = defaultdict(int)
        """Refusals by code."""
        self.unexpected: list[str] = []
        self.retries = 0
        self.recent: list[str] = []
        self._requests: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._produce())
            group.create_task(self._intervene())
            group.create_task(self.answer_decisions())

    async def finish(self) -> None:
        """Waits for the requests that were begun."""
        while self._requests:
            await asyncio.wait(self._requests)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call until it is answered. Raises refusals."""
        while True:
            try:
                return await call()
            except HoldfastError as error:
                if not error.retryable:
                    raise
                self.retries += 1
                self.errors[error.code] += 1
                await asyncio.sleep(RETRY_SECONDS)

    # -- tasks -------------------------------------------------------------------------------------

    async def _produce(self) -> None:
        rng = self.plan.rng("jobs")
        number = 0
        while True:
            number += 1
            self._begin(self._job(f"job-{number}", random.Random(rng.random())))
            await asyncio.sleep(rng.uniform(0.0, 2.0) / self.plan.jobs_per_second)

    def _begin(self, request: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._noted(request))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _noted(self, request: Awaitable[None]) -> None:
        try:
            await request
        except Exception as error:  # whatever a request raises is a finding
            self.unexpected.append(f"{type(error).__name__}: {error}")

    async def _job(self, key: str, rng: random.Random) -> None:
        """One task, by one to three requests under one key, at once or in turn."""
        kind = rng.choice(TYPES)
        payload = {"seconds": rng.choice((0.2, 1.0, 4.0))} if kind == "slow" else {}
        ways = [rng.randrange(len(self.clients) + 1) for _ in range(rng.choice((1, 1, 2, 3)))]
        at_once = rng.random() < 0.5
        calls = [self._enqueue(key, kind, payload, way) for way in ways]
        if at_once:
            await asyncio.gather(*calls)
        else:
            for call in calls:
                await call
        self.recent = [*self.recent[-RECENT:], *self.answers[key]]

    async def _enqueue(self, key: str, kind: str, payload: dict[str, float], way: int) -> None:
        if way == len(self.clients):
            handle = await self.insist(
                lambda: self.store.enqueue(kind, payload, idempotency_key=key)
            )
            self.answers[key].add(handle.id)
            return
        client = self.clients[way]
        ref = await self.insist(lambda: client.submit(kind, payload, idempotency_key=key))
        self.answers[key].add(ref.id)

    # -- operators ---------------------------------------------------------------------------------

    async def _intervene(self) -> None:
        rng = self.plan.rng("operator")
        number = 0
        while True:
            await asyncio.sleep(rng.uniform(0.0, 2.0) * INTERVENE_SECONDS)
            if not self.recent:
                continue
            number += 1
            kind, task = rng.choice(INTERVENTIONS), rng.choice(self.recent)
            self._begin(self.intervene(task, kind, f"intervention-{number}", rng.random()))

    async def intervene(
        self, task: str, kind: InterventionType, intervention_id: str, draw: float
    ) -> None:
        """An intervention, repeated at another gateway in half of the cases."""
        for nth in range(2 if draw < 0.5 else 1):
            client = self.clients[(int(draw * 100) + nth) % len(self.clients)]
            try:
                answer = await self.insist(
                    lambda client=client: client.intervene(  # type: ignore[misc]
                        task, kind, reason="hub", intervention_id=intervention_id
                    )
                )
            except HoldfastError as error:
                self.errors[error.code] += 1
                if error.http_status >= 500:
                    self.unexpected.append(f"{kind}: {error.code}: {error}")
                if nth and intervention_id in self.interventions:
                    self.unexpected.append(f"a repeated {kind} was refused: {error}")
            else:
                if answer.intervention.id != intervention_id:
                    self.unexpected.append(f"{intervention_id} is {answer.intervention.id}")
                self.interventions.add(intervention_id)

    async def answer_decisions(self) -> None:
        """Answers questions as they come, until it is cancelled."""
        rng = self.plan.rng("person")
        while True:
            await asyncio.sleep(1.0)
            with suppress(HoldfastError):
                client = rng.choice(self.clients)
                async for decision in client.decisions.list(limit=20):
                    if rng.random() < 0.7:
                        await client.decisions.answer(decision.id, "yes", reason="hub")

    async def resume(self, tasks: Sequence[str]) -> None:
        """Lifts what operators did. A task that waits for a decision refuses it."""
        for task in tasks:
            with suppress(HoldfastError):
                await self.store.intervene(task, "RESUME", "the run is over")
