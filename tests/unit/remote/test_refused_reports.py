"""What a handler of a remote worker gets for a report that the gateway refuses, by its code."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, cast

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.command import Instruction, Report
from holdfast.core.decide import Refusal, Transition
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.ids import Ids
from holdfast.core.task import Priority, RunId, Status, Task
from holdfast.core.transition import HELD
from holdfast.core.worker.wire import Change, ChangeRefused, CheckpointChange
from holdfast.engine.owned_run import OwnedRun
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    PayloadTooLarge,
    StoreBusy,
    StoreUnavailable,
)
from holdfast.remote.outbox import Fate
from holdfast.remote.outcomes import RemoteOutcomes
from holdfast.remote.services import RUN_ENDED, RemoteServices


def claimed() -> Task:
    """A task that runs."""
    return Task(
        *("t", "work", "default", Priority.NORMAL, Status.RUNNING, "{}", None, "{}"),
        *(1, 3, 0, 2, 1, 0.0, 0.0, 0.0),
        node="n",
        lease_until=2e9,
    )


class Gateway:
    """Stands for the link: answers with the codes of a test, then accepts."""

    has_failed = False

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.changes: list[Change] = []
        self.calls: list[str] = []
        self.errors: list[HoldfastError] = []

    async def report(self, changes: Sequence[Change]) -> list[Fate]:
        self.changes += changes
        await asyncio.sleep(0)
        if not self.codes:
            return [None for _ in changes]
        code = self.codes.pop(0)
        return [ChangeRefused(task_id=c.task_id, code=code, detail="because") for c in changes]

    async def call(self, verb: str, run: RunId, **arguments: object) -> Any:
        self.calls.append(verb)
        if self.errors:
            raise self.errors.pop(0)
        return []


def services(gateway: Gateway, clock: VirtualClock) -> RemoteServices:
    runs = OwnedRuns(clock, lambda *_: True, lambda _: None)
    owned = OwnedRun(claimed())
    runs.by_id[owned.run] = owned
    link = cast(Any, gateway)
    ids = Ids(random.Random(1))
    return RemoteServices(
        link, RemoteOutcomes(link, clock), ids, clock, runs=lambda: runs, on_refused=lambda: None
    )


def saved() -> Instruction:
    task = claimed()
    return Instruction(task.id, Report(checkpoint_json="1"), fence=task.fence)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid-input", InvalidInput),
        ("payload-too-large", PayloadTooLarge),
        ("a-code-of-tomorrow", HoldfastError),
    ],
)
async def test_a_refused_value_is_an_error_in_the_handler(
    clock: VirtualClock, code: str, kind: type[HoldfastError]
) -> None:
    with pytest.raises(kind, match="because") as raised:
        await services(Gateway(code), clock).report(saved())
    assert raised.value.code == code


@pytest.mark.parametrize("code", sorted(RUN_ENDED))
async def test_a_refused_run_is_a_refusal(clock: VirtualClock, code: str) -> None:
    ruling = await services(Gateway(code), clock).report(saved())
    assert isinstance(ruling, Refusal)
    assert ruling.code == code


async def test_a_report_is_sent_again_while_its_task_is_held(clock: VirtualClock) -> None:
    gateway = Gateway(HELD, HELD)
    reporting = asyncio.create_task(services(gateway, clock).report(saved()))
    while not reporting.done():
        if (wake_at := clock.next_wake()) is not None:
            clock.set(wake_at)
        await asyncio.sleep(0)
    assert isinstance(await reporting, Transition)
    ids = [change.checkpoint_id for change in gateway.changes if type(change) is CheckpointChange]
    assert len(set(ids)) == 3


async def test_a_call_outlasts_a_database_that_does_not_answer(clock: VirtualClock) -> None:
    gateway = Gateway()
    gateway.errors = [StoreBusy("held"), StoreUnavailable("away")]
    task = claimed()
    calling = asyncio.create_task(services(gateway, clock).parents(task.id))
    while not calling.done():
        if (wake_at := clock.next_wake()) is not None:
            clock.set(wake_at)
        await asyncio.sleep(0)
    assert await calling == {}
    assert gateway.calls == ["parents"] * 3


async def test_a_call_of_a_link_that_has_ended_fails(clock: VirtualClock) -> None:
    gateway = Gateway()
    gateway.errors = [GatewayUnavailable("the link has ended")]
    gateway.has_failed = True
    with pytest.raises(GatewayUnavailable):
        await services(gateway, clock).parents(claimed().id)
