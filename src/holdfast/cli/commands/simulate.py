"""`holdfast simulate`: runs a cluster under faults in virtual time, and checks the laws.

Promises: the same seed gives the same run and the same `trace_hash` on every machine. For a broken law
the command prints the seed, a command that reproduces it, the smallest run that breaks it and a timeline
of that run; the exit code is 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Annotated

import msgspec
from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.commands.simulate_answer import Answer, print_answer
from holdfast.cli.options import COMMON, Common
from holdfast.cli.problem import Usage
from holdfast.clock import SystemClock
from holdfast.core import codec
from holdfast.sim.campaign import Options, Report, Verdict, campaign, run_plan
from holdfast.sim.scenarios import SCENARIOS, changes_of
from holdfast.sim.shrink import RUNS_MAX, Shrunk, shrink as make_small
from holdfast.sim.swarm import FAULTS, Plan
from holdfast.sim.user_handlers import UserHandlers, handlers_of


def simulate(
    scenario: Annotated[
        str,
        Parameter(
            help="; ".join(f"{name}: {each.about}" for name, each in SCENARIOS.items()) + "."
        ),
    ] = "any",
    *,
    seed: Annotated[int, Parameter(help="The first seed.")] = 0,
    seeds: Annotated[int, Parameter(help="How many seeds.")] = 1,
    minutes: Annotated[float | None, Parameter(help="Run new seeds for this long.")] = None,
    nodes: Annotated[int | None, Parameter(help="Worker nodes; default: drawn, 1 to 5.")] = None,
    faults: Annotated[
        str | None, Parameter(help=f"Only some of {', '.join(FAULTS)}; 'none' for none.")
    ] = None,
    hours: Annotated[float | None, Parameter(help="Hours with faults; default: drawn.")] = None,
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", negative="", help="NAME=VALUE of the plan; repeatable."),
    ] = (),
    payload: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="TYPE=JSON, payloads for your handlers; repeatable."),
    ] = (),
    processes: Annotated[
        int, Parameter(name=("--processes", "-p"), help="Run seeds in parallel.")
    ] = 1,
    shrink: Annotated[bool, Parameter(help="Reduce the first failure to a small run.")] = True,
    common: Common = COMMON,
) -> int:
    """Run a cluster under faults that a seed draws, in virtual time, and check every law."""
    for name, number in (("seeds", seeds), ("nodes", nodes), ("processes", processes)):
        if number is not None and number < 1:
            raise Usage(f"--{name} is {number}: give at least 1")
    options = Options(
        hours=hours,
        nodes=nodes,
        faults=_faults(faults),
        changes=(
            *changes_of(scenario),
            *(_pair("set", each, "NAME=VALUE") for each in set_),
        ),
    )
    user_handlers = _user_handlers(common.app, payload)
    if user_handlers is not None and processes > 1:
        raise Usage("--app runs in this process: leave --processes out")
    options.plan(seed)  # refuses an impossible plan before anything runs
    progress = Progress(None if minutes is not None else seeds)
    report = campaign(
        range(seed, seed + seeds) if minutes is None else count(seed),
        options,
        processes=processes,
        user_handlers=user_handlers,
        on_verdict=progress.seed,
        is_over=_time_limit(minutes),
    )
    small = _small(report, options, user_handlers, progress) if shrink else None
    progress.end()
    same = [f"--app {common.app}"] if common.app else []
    same += [f"--payload '{each}'" for each in payload]
    print_answer(common, Answer(report, options, small, " ".join(same)))
    return 0 if report.is_good else 1


def _time_limit(minutes: float | None) -> Callable[[], bool]:
    if minutes is None:
        return lambda: False
    if minutes <= 0:
        raise Usage(f"--minutes is {minutes:g}: give more than 0")
    clock = SystemClock()
    end = clock.monotonic() + minutes * 60
    return lambda: clock.monotonic() >= end


class Progress:
    """Progress on a terminal."""

    def __init__(self, seeds: int | None) -> None:
        self._of = f"/{seeds}" if seeds is not None else ""
        self._done = 0
        self._bad = 0
        self._runs = 0
        self._shows = sys.stderr.isatty()

    def seed(self, verdict: Verdict) -> None:
        self._done += 1
        self._bad += not verdict.is_good
        bad = f", {self._bad} broken" if self._bad else ""
        self._say(f"{self._done}{self._of} seeds{bad}")

    def run(self, seed: int) -> None:
        self._runs += 1
        self._say(f"reducing seed {seed}: run {self._runs} of at most {RUNS_MAX}")

    def end(self) -> None:
        self._say("")

    def _say(self, text: str) -> None:
        if self._shows:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _small(
    report: Report, options: Options, user_handlers: UserHandlers | None, progress: Progress
) -> Shrunk | None:
    """The first failure, reduced to its smallest form."""
    if not report.bad:
        return None
    first = report.bad[0]

    def run(plan: Plan) -> Verdict:
        progress.run(first.seed)
        return run_plan(plan, user_handlers)

    return make_small(options.plan(first.seed), first, run)


def _faults(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return () if text == "none" else values.names(text)


def _user_handlers(app: str | None, payload: tuple[str, ...]) -> UserHandlers | None:
    if app is None:
        return None
    from holdfast.cli.load import load_queue

    given: dict[str, list[object]] = {}
    for each in payload:
        name, text = _pair("payload", each, "TYPE=JSON")
        try:
            given.setdefault(name, []).append(codec.loads(text))
        except msgspec.DecodeError as error:
            raise Usage(f"--payload of '{name}' is not JSON: {error}") from None
    return handlers_of(load_queue(app), given)


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise Usage(f"--{option} is '{text}': write {form}")
    return name, value
