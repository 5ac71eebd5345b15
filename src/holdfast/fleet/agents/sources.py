"""What offers take from jobs and blocks.

Promises: the command of a job is read once; a job never changes it. Blocks are read in the transaction that
judges by them, or known from before if their epoch is the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.fleet.agents.facts import Run, RunCommand
from holdfast.core.fleet.agents.offer_rules import BlockVerdict
from holdfast.core.fleet.agents.wire import AgentBlock, reason_of
from holdfast.core.fleet.blocks import block as rules
from holdfast.core.fleet.commands.secrets import redacted
from holdfast.core.fleet.hosts.selector_parse import Selector, may_ask_facts
from holdfast.core.fleet.jobs.spec import (
    JobSpec,
    argv_of,
    probe_of,
    read_spec,
    with_definition,
)
from holdfast.core.fleet.model import Block, Host, Job
from holdfast.errors import HoldfastError
from holdfast.fleet.blocks import scripts as block_scripts
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.hosts.groups import named_by
from holdfast.fleet.secret_values import SecretValues
from holdfast.store.script import Script

COMMANDS_KEPT: Final = 1_000
PROJECTS_KEPT: Final = 1_000


class JobCommands:
    """The commands of jobs, as `CommandSource`."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, RunCommand] = OrderedDict()

    def __call__(self, job: Job) -> RunCommand:
        known = self._known.get(job.id)
        if known is not None and known.digest == job.digest:
            self._known.move_to_end(job.id)
            return known
        command = command_of(job)
        self._known[job.id] = command
        while len(self._known) > COMMANDS_KEPT:
            self._known.popitem(last=False)
        return command


def command_of(job: Job) -> RunCommand:
    """What the executions of a job run. Secrets are added with each offer. Never raises: a sync is about
    executions of several jobs, and one that cannot be built must not keep the results of others away."""
    try:
        spec = read_spec(job.spec_json)
    except msgspec.MsgspecError as error:
        return RunCommand(command_type="", kind="", digest=job.digest, refusal=_refusal(error))
    try:
        with_definition(spec, spec.definition)
    except HoldfastError as error:
        return _command(job, spec, refusal=_refusal(error))
    return _command(job, spec, argv_of(spec), probe_of(spec))


def _refusal(error: Exception) -> str:
    return reason_of(f"the command cannot be built: {error}")


def _command(
    job: Job,
    spec: JobSpec,
    argv: tuple[str, ...] = (),
    probe_argv: tuple[str, ...] = (),
    refusal: str = "",
) -> RunCommand:
    definition = spec.definition
    return RunCommand(
        command_type=spec.command_type,
        kind=definition.kind.value,
        project=job.project,
        argv=argv,
        env=spec.env,
        secrets=spec.secrets,
        run_as=definition.run_as,
        exec_timeout_seconds=spec.exec_timeout_seconds,
        grace_seconds=spec.grace_seconds,
        on_restart=spec.on_restart.value,
        probe_argv=probe_argv,
        output_bytes=definition.output_bytes,
        ok_codes=definition.ok_codes,
        is_idempotent=spec.idempotent,
        digest=job.digest,
        refusal=refusal,
    )


class SecretsOfJobs:
    """The secrets of commands: given to runs, and removed from what they write."""

    def __init__(self, values: SecretValues) -> None:
        self._values = values

    def environment(self, command: RunCommand) -> dict[str, str]:
        """The variables of a run. CommandRefused if a secret cannot be had."""
        if not command.secrets:
            return dict(command.env)
        about = command.project, command.command_type
        return {**command.env, **self._values.environment(command.secrets, *about)}

    def redact(self, command: RunCommand, data: bytes) -> bytes:
        """Output without secrets, once more: the agent has removed them, also where it cut its chunks. Of an
        agent that does not, what two chunks share is removed at the end of the run."""
        if not command.secrets or not data:
            return data
        return redacted(data, self._values.known(command.secrets))


class StoredBlocks:
    """The blocks of the store, as `BlockSource`."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Sequence[Block]]] = {}

    def verdicts(
        self, runs: Sequence[Run], epochs: Mapping[str, int], now: float
    ) -> Script[BlockVerdict]:
        """What the blocks say about these executions."""
        projects = {run.task.project for run in runs}
        blocks = yield from self._read(projects, epochs)
        if not any(blocks.values()):
            return lambda run: None
        ids = sorted({run.execution.host_id for run in runs if blocks[run.task.project]})
        about = yield from _about_hosts(blocks, ids)

        def verdict(run: Run) -> Block | None:
            command_type = run.job.command.command_type
            matching = [
                block
                for block in about.get(run.execution.host_id, ())
                if block.project == run.task.project and rules.matches_type(block, command_type)
            ]
            found = rules.verdict_of(matching, now)
            return None if found is None else found.block

        return verdict

    def lists(
        self, agents: Mapping[str, str], epochs: Mapping[str, int], now: float
    ) -> Script[dict[str, list[AgentBlock]]]:
        """The blocks in force for each host. `agents`: the project of each host."""
        blocks = yield from self._read(set(agents.values()), epochs)
        about: dict[str, list[Block]] = {}
        if any(blocks.values()):
            about = yield from _about_hosts(blocks, sorted(agents))
        return {
            host_id: [
                _shown(block, now)
                for block in about.get(host_id, ())
                if block.project == project and rules.is_in_force(block, now)
            ]
            for host_id, project in agents.items()
        }

    def _read(
        self, projects: set[str], epochs: Mapping[str, int]
    ) -> Script[dict[str, Sequence[Block]]]:
        found: dict[str, Sequence[Block]] = {}
        for project in sorted(projects):
            epoch = epochs.get(project)
            known = self._known.get(project)
            if known is None or known[0] != epoch:
                current, blocks = yield from block_scripts.active_since(project, None)
                if len(self._known) >= PROJECTS_KEPT:
                    self._known.clear()
                known = (current, blocks or ())
                self._known[project] = known
            found[project] = known[1]
        return found


def _about_hosts(
    blocks: Mapping[str, Sequence[Block]], ids: Sequence[str]
) -> Script[dict[str, list[Block]]]:
    """The blocks about each of these hosts."""
    with_facts = any(may_ask_facts(block.selector) for some in blocks.values() for block in some)
    hosts = yield from host_scripts.pinned(ids, with_facts=with_facts)
    return _about(blocks, hosts.values(), (yield from _groups(blocks)))


def _about(
    blocks: Mapping[str, Sequence[Block]],
    hosts: Iterable[Host],
    groups: Mapping[str, Mapping[str, Selector]],
) -> dict[str, list[Block]]:
    """The blocks about each host."""
    by_project: dict[str, list[Host]] = {}
    for host in hosts:
        by_project.setdefault(host.project, []).append(host)
    found: dict[str, list[Block]] = {}
    for project, some in by_project.items():
        found |= rules.by_host(blocks.get(project, ()), some, groups.get(project, {}))
    return found


def _groups(blocks: Mapping[str, Sequence[Block]]) -> Script[dict[str, dict[str, Selector]]]:
    groups: dict[str, dict[str, Selector]] = {}
    for project, some in blocks.items():
        groups[project] = yield from named_by(project, (block.selector for block in some))
    return groups


def _shown(block: Block, now: float) -> AgentBlock:
    """A block in force as an agent keeps it. The end of a window is said as a time from now."""
    until = rules.ends_at(block, now)
    return AgentBlock(
        id=block.id,
        command_type=block.command_type,
        reason=block.reason,
        expires_in_seconds=None if until is None else max(0.0, until - now),
        window=None if block.window_json is None else codec.loads_object(block.window_json),
    )
