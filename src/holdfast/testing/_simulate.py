"""Runs an application's handlers in the simulator: several nodes, faults, virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.queue.queue import Queue
from holdfast.sim.campaign import Options, Report, Verdict, campaign, run_plan
from holdfast.sim.shrink import Shrunk, shrink as make_small
from holdfast.sim.swarm import Plan, differences, plan as plan_of
from holdfast.sim.user_handlers import UserHandlers, handlers_of


def simulated(
    queue: Queue,
    *,
    payloads: Mapping[str, Sequence[object]] | None = None,
    seeds: int = 5,
    first_seed: int = 0,
    hours: float = 0.05,
    nodes: int | None = None,
    faults: Sequence[str] | None = None,
    plan: Mapping[str, str] | None = None,
    shrink: bool = True,
) -> Report:
    """Runs the queue's async handlers under the faults drawn by each seed. Raises AssertionError with the
    broken law, the seed, the smallest run that breaks it and its timeline. `payloads` lists payloads by task
    type; each task gets one of them. Other types are left out then. `plan` sets other figures of the runs."""
    user_handlers = handlers_of(queue, payloads or {})
    options = Options(
        hours=hours,
        nodes=nodes,
        faults=None if faults is None else tuple(faults),
        changes=tuple((plan or {}).items()),
    )
    report = campaign(range(first_seed, first_seed + seeds), options, user_handlers=user_handlers)
    if report.bad:
        raise AssertionError(_message(report.bad[0], options, user_handlers, shrink))
    return report


def _message(verdict: Verdict, options: Options, user_handlers: UserHandlers, shrink: bool) -> str:
    first = options.plan(verdict.seed)
    small = Shrunk(first, verdict, "", 0)
    if shrink:
        small = make_small(first, verdict, lambda plan: run_plan(plan, user_handlers=user_handlers))
    lines = [f"seed {verdict.seed} broke:", *_complaints(verdict)]
    if small.plan != first:
        lines += [f"The smallest run that does ({small.runs} were tried):"]
        lines += [*_complaints(small.verdict)]
    lines += [f"Again: simulate(queue, ..., {_arguments(small.plan)})", "", small.verdict.timeline]
    return "\n".join(lines)


def _complaints(verdict: Verdict) -> list[str]:
    return [f"  {law}: {text}" for law, texts in verdict.broken.items() for text in texts[:3]]


def _arguments(plan: Plan) -> str:
    """The arguments that repeat the run of this plan."""
    figures = {}
    arguments = [f"first_seed={plan.seed}", "seeds=1", f"hours={plan.hours}"]
    for name, text in differences(plan, plan_of(plan.seed, hours=plan.hours)):
        if name == "nodes":
            arguments.append(f"nodes={text}")
        elif name == "faults":
            arguments.append(f"faults={sorted(plan.faults)}")
        else:
            figures[name] = text
    return ", ".join([*arguments, *([f"plan={figures}"] if figures else [])])
