"""Safeguards of the fleet: of its agents, of the server's side of their protocol, and of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.agent import runs as agent_runs
from holdfast.agent.agent import Agent
from holdfast.core.fleet.agents import rules as agent_rules
from holdfast.core.fleet.agents.journal import Finding, recover
from holdfast.core.fleet.rollout import reducer as rollout
from holdfast.fleet.agents.sources import StoredBlocks
from holdfast.fleet.jobs import control
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.job_rows import known_job
from holdfast.fleet.simulated.disk import MemoryJournal
from proof.ablations.swap import Ablation, Swap

FLEET: Final = (
    *(("nodes", "1"), ("clients", "0"), ("holders", "0"), ("traders", ""), ("lock_servers", "0")),
    *(("agents", "20"), ("fleet_act_seconds", "3"), ("hours", "0.04"), ("keep_seconds", "1e9")),
    *(("faults", ""), ("agent_crash", "0.2")),
)
"""Few hosts, many jobs, and agents that die often."""
SMALL: Final = (*FLEET, ("agents", "10"), ("fleet_act_seconds", "2"), ("hours", "0.02"))
"""For what goes wrong on one host: a run takes half of the time."""


def _fsync() -> list[Swap]:
    async def unsynced(self: Any, token: int, *records: Any, sync: bool = True) -> None:
        await append(self, token, *records, sync=False)

    append = MemoryJournal.append
    return [(MemoryJournal, "append", unsynced)]


def _go() -> list[Swap]:
    async def at_once(self: Any, offer: Any) -> None:
        await take(self, replace(offer, go=True))

    take = agent_runs.Runs.offer
    return [(agent_runs.Runs, "offer", at_once)]


def _unknown() -> list[Swap]:
    def sure(log: Any, evidence: Any, *, is_ours: bool = True) -> Finding:
        finding = recover(log, evidence, is_ours=is_ours)
        return Finding.NEVER_STARTED if finding is Finding.UNKNOWN else finding

    def trusting(agent: Any, run: Any, result: Any) -> bool:
        return True

    return [
        (agent_runs, "recover", sure),
        (agent_rules, "proves_no_start", trusting),
    ]


def _kept_results() -> list[Swap]:
    async def forgetful(
        self: Any, report: Any, wait_seconds: float, *, is_part: bool = False
    ) -> Any:
        await self.runs.acked({result.id for result in report.results})
        return await send(self, report, wait_seconds, is_part=is_part)

    send = Agent._sync
    return [(Agent, "_sync", forgetful)]


def _slot() -> list[Swap]:
    def free(self: Any) -> None:
        look(self)
        self.effects.probe, self.effects.repeat = [], None
        self.effects.may_offer = self._is_newest

    def open_handed(self: Any, offer: Any) -> Any:
        held, self.by_token = self.by_token, {}
        try:
            return refusal(self, offer)
        finally:
            self.by_token = held

    look, refusal = agent_rules._Judge.look_at_slot, agent_runs.Runs._refusal
    return [
        (agent_rules._Judge, "look_at_slot", free),
        (agent_runs.Runs, "_refusal", open_handed),
    ]


def _blocks() -> list[Swap]:
    def none(self: Any, runs: Any, epochs: Any, now: float) -> Any:
        yield from ()
        return lambda run: None

    return [(StoredBlocks, "verdicts", none)]


def _verdict() -> list[Swap]:
    return [(Approvals, "reject", Approvals.approve)]


def _halt() -> list[Swap]:
    def later(
        dialect: Any, ids: Any, now: float, *, job_id: str, mode: Any, by: Any, rules: Any
    ) -> Any:
        job = yield from known_job(job_id)
        return control.Ordered(job), []

    return [(control, "_abort", later)]


def _window() -> list[Swap]:
    def wide(
        policy: Any, state: Any, seen: Sequence[Any], unknown: int, now: float, **rest: Any
    ) -> Any:
        return step(replace(policy, max_in_flight="100%"), state, seen, unknown, now, **rest)

    step = rollout.step
    return [(rollout, "step", wide)]


def _turn() -> list[Swap]:
    def at_once(policy: Any, *rest: Any) -> Any:
        return returned(replace(policy, max_in_flight="100%"), *rest)

    returned = rollout.returned
    return [(rollout, "returned", at_once)]


FLEETS: Final = (
    Ablation("agent-fsync", "an agent starts commands before its journal is synced", _fsync, SMALL),
    Ablation("go", "an agent starts what it was offered without a go", _go, SMALL),
    Ablation("unknown", "an agent calls a run that a reboot cut off not started", _unknown, FLEET),
    Ablation("kept-results", "an agent forgets results once they were sent", _kept_results, SMALL),
    Ablation("slot", "a host is offered a command while another one runs", _slot, SMALL),
    Ablation(
        "offer-blocks", "blocks are judged when a job is planned, not at offers", _blocks, SMALL
    ),
    Ablation("verdict", "a rejection of a job counts as an approval", _verdict, SMALL),
    Ablation("halt", "an abort of a job is acknowledged and not done", _halt, FLEET),
    Ablation("window", "a rollout admits all hosts at once", _window, FLEET),
    Ablation("turn", "hosts that come back start without room in the window", _turn, FLEET),
)
