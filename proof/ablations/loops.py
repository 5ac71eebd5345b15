"""Safeguards of runs, loops and clocks."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from holdfast.core.claiming import Upcoming
from holdfast.core.codec import loads
from holdfast.core.submit import Submission, submit
from holdfast.engine import dispatcher, engine, patience, pool, runner, scheduler
from holdfast.engine.execute import invoke
from holdfast.engine.handlers import TypeConfig
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.errors import LeaseLost
from holdfast.queue.schedules import Schedules
from holdfast.queue.types import EnqueueOptions
from holdfast.sim.clock import NodeClock
from holdfast.store.store_clock import StoreClock
from proof.ablations.swap import SOON, Ablation, Swap

ALONE: Final = (("holders", "0"), ("traders", ""), ("lock_servers", "0"))
QUIET: Final = (*ALONE, ("faults", ""))
PAIRED: Final = (*QUIET, ("nodes", "2"))
CLOCKS: Final = (*ALONE, *SOON, ("faults", "put-right"), ("rate", "2"), ("nodes", "3"))
ASLEEP: Final = (*ALONE, ("faults", "suspend"), ("rate", "2"), ("nodes", "3"))


def _older_run() -> list[Swap]:
    return [(OwnedRuns, "lose_older", lambda *_: None)]


def _own_loss() -> list[Swap]:
    async def taken(handler: Any, task: Any, context: Any) -> Any:
        try:
            return await invoke(handler, task, context)
        except LeaseLost:
            context.request_cancel()
            raise

    return [(runner, "invoke", taken)]


def _type_rules() -> list[Swap]:
    async def plain(self: Any, schedule: Any, now: float) -> Submission:
        if self._types.handlers.get(schedule.type) is not None:
            return await submission(self, schedule, now)
        resources = await self._sessions.open()
        request = self._types.request(
            TypeConfig(),
            type=schedule.type,
            payload=loads(schedule.payload_json),
            options=EnqueueOptions(),
        )
        return submit(request, task_id=resources.ids.task(now), now=now)

    submission = Schedules.submission
    return [(Schedules, "submission", plain)]


def _bad_schedule() -> list[Swap]:
    return [(scheduler.Scheduler, "_try", scheduler.Scheduler._fire)]


def _steady() -> list[Swap]:
    def highest(self: Any) -> float:
        now: float = max(self._source(), self._mark[0])
        self._mark = (now, self._monotonic())
        return now

    return [(StoreClock, "now", highest)]


def _patience() -> list[Swap]:
    return [(patience.Patience, "remaining", lambda *_, **__: 0.0)]


def _sleep() -> list[Swap]:
    def awake(self: NodeClock) -> float:
        return (self._loop.time() - self.slept) * self.rate

    return [(NodeClock, "monotonic", awake)]


def _freed() -> list[Swap]:
    return [(pool.WorkerPool, "_signal_free", lambda _: None)]


def _give_back() -> list[Swap]:
    async def kept(*_: Any) -> None:
        return

    return [(engine.Engine, "_give_back", kept), (Heartbeat, "release_unknown", kept)]


def _opening() -> list[Swap]:
    def blind(self: Any, ahead: Upcoming) -> float:
        return pause(self, replace(ahead, opens_at=None))

    pause = dispatcher.Dispatcher._pause
    return [(dispatcher.Dispatcher, "_pause", blind)]


LOOPS: Final = (
    Ablation("older-run", "a task claimed again runs beside its older run", _older_run, QUIET),
    Ablation("own-loss", "a lost lock of a handler counts as loss of its task", _own_loss, QUIET),
    Ablation(
        "type-rules", "a node without the handler fires tasks without limits", _type_rules, PAIRED
    ),
    Ablation(
        "bad-schedule",
        "a schedule that a node cannot evaluate ends the loop",
        _bad_schedule,
        PAIRED,
    ),
    Ablation("steady", "the store's time stops after a clock correction", _steady, CLOCKS),
    Ablation("patience", "leases are judged right after a clock jump", _patience, CLOCKS),
    Ablation("sleep", "the monotonic clock excludes the sleep of a machine", _sleep, ASLEEP),
    Ablation("freed", "workers that become free do not wake the dispatcher", _freed, QUIET),
    Ablation("give-back", "a stop releases nothing", _give_back, QUIET),
    Ablation("opening", "dispatchers ignore the time at which a limit opens", _opening, QUIET),
)
