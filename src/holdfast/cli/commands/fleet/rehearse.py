"""`holdfast rehearse`, `holdfast run --rehearse`: what a job would do, on simulated hosts in virtual time.

Promises: reads the hosts, groups and blocks of the project and writes nothing. The planner, the protocol and
the agents are the real ones. The exit code is that of a job that ends so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter
from msgspec.structs import replace

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.fleet.flags import named_by_flags
from holdfast.cli.commands.fleet.job_view import exit_code
from holdfast.cli.commands.fleet.run_request import Rollout, What
from holdfast.cli.options import COMMON, Common, Project
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.times import length
from holdfast.cli.problem import Usage
from holdfast.cli.session import with_queue
from holdfast.cli.simulation import NO_FAULT_OPTIONS, FaultOptions
from holdfast.client.calls import Calls
from holdfast.config import FILE_NAME, read_tables
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.plural import noun_for
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.fleet.blocks.blocks import NewBlock
from holdfast.fleet.simulated.faults import parse_delay, parse_share
from holdfast.gateway.settings import server_settings
from holdfast.sim.fleet.rehearsal import (
    Assumptions,
    Rehearsal,
    RehearsedWave,
    rehearse as run_rehearsal,
)

PAGE: Final = 1_000
WHAT = What()
ROLLOUT = Rollout()


@Parameter(name="*")
@dataclass(frozen=True)
class Assumed:
    """What a rehearsal assumes about the command, beside the faults of hosts."""

    takes: Annotated[
        str, Parameter(help="How long the command takes on a host: SECONDS or LOW..HIGH.")
    ] = "0.5..5"
    fail: Annotated[str, Parameter(help="The share of hosts on which it fails.")] = "0"


ASSUMED = Assumed()


class Found(msgspec.Struct, frozen=True):
    """What a project has."""

    hosts: list[HostEntry]
    groups: dict[str, str]
    blocks: list[NewBlock]


@named_by_flags()
def rehearse(
    command: Annotated[str, Parameter(help="The command; some types have none.")] = "",
    /,
    *,
    hosts: Annotated[str, Parameter(help="A selector of hosts, e.g. role=web.")],
    project: Project = None,
    what: What = WHAT,
    rollout: Rollout = ROLLOUT,
    assumed: Assumed = ASSUMED,
    faults: FaultOptions = NO_FAULT_OPTIONS,
    common: Common = COMMON,
) -> int:
    """Show what a job would do: how long, in which waves, what would halt it. Nothing is run."""
    body = what.request() | {"command": command, "selector": hosts}
    if (request := rollout.request()) is not None:
        body["rollout"] = request
    if project is not None:
        body["project"] = project
    return rehearsed(common, body, assumed, faults)


def rehearsed(common: Common, body: dict[str, Any], assumed: Assumed, options: FaultOptions) -> int:
    """Rehearses the job of a request and prints the outcome."""
    assumptions = assumptions_of(assumed, options)
    try:
        request = msgspec.convert(body, JobRequest)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from None
    project = request.project or DEFAULT_PROJECT
    found = with_queue(common, lambda queue: _find(queue, project))
    outcome = run_rehearsal(
        replace(request, project=project),
        found.hosts,
        _rules(),
        assumptions,
        groups=found.groups,
        blocks=found.blocks,
    )
    item: dict[str, Any] = msgspec.to_builtins(outcome)
    Printer(common).one(item, _lines(outcome), names=[outcome.status.value])
    return exit_code({"status": outcome.status.value})


def assumptions_of(assumed: Assumed, options: FaultOptions) -> Assumptions:
    faults = options.faults
    try:
        return Assumptions(
            faults=faults,
            seed=options.seed,
            command_seconds=parse_delay(assumed.takes, name="takes"),
            fail=parse_share("fail", assumed.fail),
        )
    except HoldfastError as error:
        raise Usage(f"--{error}") from None


def _rules() -> FleetRules:
    """Those of the settings in this folder, as a server would read them."""
    tables = read_tables(Path.cwd() / FILE_NAME)
    return server_settings(tables, os.environ, {}).fleet.rules


async def _find(queue: TaskQueue, project: str) -> Found:
    calls = await calls_of(queue)
    hosts = await _all(calls, "hosts", project)
    groups = await _all(calls, "groups", project)
    blocks = await _all(calls, "blocks", project)
    return Found(
        [
            HostEntry(name=each["name"], labels=each["labels"], state=_state(each["state"]))
            for each in hosts
        ],
        {each["name"]: each["selector"] for each in groups},
        [
            NewBlock(
                reason=each["reason"],
                host=each["host"] if each["selector"] is None else None,
                selector=each["selector"],
                command_type=each["command_type"],
                owner=each["owner"],
                effect=each["effect"],
                on_running=each["on_running"],
                on_lift=each["on_lift"],
            )
            for each in blocks
            if each["active"]
        ],
    )


def _state(text: str) -> str | None:
    return None if text == "active" else text


async def _all(calls: Calls, what: str, project: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        query = {"project": project, "limit": PAGE, "after": after}
        page = (await calls.call("GET", v1(what), query=query)).body
        items += page["items"]
        after = page["next"]
        if after is None:
            return items


def _lines(outcome: Rehearsal) -> list[tuple[str, object]]:
    halted = outcome.halted_after
    return [
        ("rehearsal", f"{outcome.status.value} after {length(outcome.seconds)}"),
        ("hosts", outcome.hosts),
        (
            "halts",
            None if outcome.halt is None else f"after {length(halted or 0.0)}: {outcome.halt}",
        ),
        *((f"wave {each.wave}", _wave(each)) for each in outcome.waves),
        ("outcomes", _counts(outcome.kinds)),
        ("at once", f"at most {_hosts(outcome.most_running)}"),
        ("starts", outcome.starts),
        ("crashes", outcome.crashes or None),
        ("left out", len(outcome.excluded) or None),
        ("written", "nothing"),
    ]


def _wave(wave: RehearsedWave) -> str:
    end = "not closed" if wave.closed_at is None else f"closes at {length(wave.closed_at)}"
    return f"{_hosts(wave.size)}, opens at {length(wave.opened_at)}, {end}: {_counts(wave.ended)}"


def _hosts(count: int) -> str:
    return f"{count} {noun_for(count, 'host')}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items(), key=lambda each: -each[1]))
