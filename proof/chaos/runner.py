"""One run: a fresh store, two workers, a steady load, the fault, the recovery, the figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proof.chaos.cases import Case
from proof.chaos.plan import Plan
from proof.chaos.score import BACK, Phases, back_after, rate, tally
from proof.chaos.stage import POLL_SECONDS, Stage
from proof.chaos.stores import STORES, SmallDisk
from proof.lab.proxy import Proxy
from proof.lab.session import Session, SubjectError, SubjectSpec

FIRST_SECONDS = 30.0
SHORT_SECONDS = 0.5
SETTLE_SECONDS = 20.0
SETTLED_SHARE = 0.5
"""Share of a second's jobs that may be unfinished: those that run."""


@dataclass(frozen=True)
class Outcome:
    """The result of one subject in one case. A share is of the base rate; None: never, or unknown."""

    case: str
    subject: str
    base_rate: float = 0.0
    during: float | None = None
    """None: the fault has no duration."""
    recovered: float = 0.0
    back_after_seconds: float | None = None
    acknowledged: int = 0
    lost: int = 0
    unfinished: int | None = None
    ended_twice: int = 0
    handler_ended_twice: int | None = None
    """Counted from the journals, so the measure is the same for all; `ended_twice` says whether the
    system accepted both ends."""
    ran_twice: int = 0
    enqueued_twice: int = 0
    refused: int = 0
    workers_died: int = 0
    drained_seconds: float | None = None
    """From the end of the fault until everything had ended."""
    notes: dict[str, Any] = field(default_factory=dict)
    failed: str = ""

    @property
    def needed_restart(self) -> bool:
        """Whether a worker ended by itself, or no job made progress any more."""
        return self.workers_died > 0 or self.recovered == 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "needed_restart": self.needed_restart}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Outcome:
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


async def run(
    case: Case, spec: SubjectSpec, python: Path, plan: Plan, folder: Path, log: Path
) -> Outcome:
    """A failure of the subject before the fault is a result too."""
    try:
        async with _stage(case, spec, python, plan, folder, log) as stage:
            return await _live_through(case, spec, stage)
    except (SubjectError, RuntimeError) as error:
        return Outcome(case.name, spec.name, failed=str(error))


@asynccontextmanager
async def _stage(
    case: Case, spec: SubjectSpec, python: Path, plan: Plan, folder: Path, log: Path
) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        disk = None
        where = folder
        if case.needs_small_disk:
            disk = SmallDisk(folder / "small")
            stack.callback(disk.unmount)
            where = disk.folder
        store = STORES[spec.store](where)
        stack.callback(store.stop)
        options = {"url": store.url(), "scenario": "chaos"}
        session = stack.enter_context(Session(spec, python, options, log))
        proxy = None
        if case.needs_proxy:
            proxy = await stack.enter_async_context(Proxy(store.port))
        stage = Stage(store, plan, session, proxy=proxy, disk=disk)
        stack.callback(stage.dismiss)
        stage.hire(store.url(proxy.port if proxy else 0))
        yield stage


async def _live_through(case: Case, spec: SubjectSpec, stage: Stage) -> Outcome:
    plan = stage.plan
    stage.call("pace", rate=plan.rate)
    await stage.first_end(FIRST_SECONDS)
    await _settle(stage)
    await asyncio.sleep(plan.warm)
    base_from = time.monotonic()
    await asyncio.sleep(plan.base)
    # A backlog from the start would make the base rate higher than the offered rate.
    base = min(rate(stage.ends(), base_from, time.monotonic()), float(plan.rate))
    await case.strike(stage)
    await _recover(stage, base)
    hushed = time.monotonic()
    last = rate(stage.ends(), hushed - plan.window, hushed)
    phases = Phases(base_from, stage.struck, stage.healed, hushed)
    died = stage.died()
    offered = stage.call("hush")
    await case.clean_up(stage)
    unfinished = await _drain(stage, plan.burst_drain if case.is_burst else plan.drain)
    drained = time.monotonic() - stage.healed if unfinished == 0 else None
    verdict = stage.call("verdict")
    ends = stage.ends()
    count = tally(stage.reader.lines)
    twice = verdict.pop("ended_twice")
    refused = int(verdict.pop("refused"))
    return Outcome(
        case.name,
        spec.name,
        base_rate=round(base, 1),
        during=_during(ends, phases, base),
        recovered=round(last / base, 3) if base else 0.0,
        back_after_seconds=back_after(ends, phases, base),
        acknowledged=count.acknowledged,
        lost=max(0, count.never_ended - (unfinished or 0)),
        unfinished=unfinished,
        ended_twice=count.handler_ended_twice if twice is None else int(twice),
        handler_ended_twice=count.handler_ended_twice,
        ran_twice=count.ran_twice,
        enqueued_twice=count.enqueued_twice,
        refused=refused,
        workers_died=max(died, stage.died()),
        drained_seconds=None if drained is None else round(drained, 1),
        notes={**stage.notes, **offered, **verdict},
    )


async def _settle(stage: Stage) -> None:
    """Waits until the backlog of the start is done: the base must be a steady state."""
    until = time.monotonic() + SETTLE_SECONDS
    while stage.call("unfinished")["unfinished"] > stage.plan.rate * SETTLED_SHARE:
        if time.monotonic() > until:
            stage.notes["behind_before_the_fault"] = 1
            return
        await asyncio.sleep(POLL_SECONDS)


def _during(ends: list[float], phases: Phases, base: float) -> float | None:
    if not base or phases.healed - phases.struck < SHORT_SECONDS:
        return None
    return round(rate(ends, phases.struck, phases.healed) / base, 3)


async def _recover(stage: Stage, base: float) -> None:
    """Continues the load until the rate is back, within bounds."""
    plan = stage.plan
    while True:
        await asyncio.sleep(POLL_SECONDS)
        now = time.monotonic()
        since = now - stage.healed
        is_back = rate(stage.ends(), now - plan.window, now) >= BACK * base
        if since >= plan.recovery_most or (is_back and since >= plan.recovery_least):
            return


async def _drain(stage: Stage, limit: float) -> int | None:
    """Waits until the store has no unfinished job; returns how many are left."""
    until = time.monotonic() + limit
    left: int | None = None
    while time.monotonic() < until:
        try:
            left = stage.call("unfinished")["unfinished"]
        except SubjectError as error:
            stage.notes["last_question"] = str(error)[:200]
        if left == 0 and not tally(stage.reader.update()).never_ended:
            break
        await asyncio.sleep(POLL_SECONDS)
    return left
