"""What a batch of syncs gets from other parts, and what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from holdfast.core.fleet.agents.facts import Run, RunCommand
from holdfast.core.fleet.agents.offer_rules import BlockVerdict, EnvironmentOf
from holdfast.core.fleet.agents.wire import AgentBlock, AgentSync, AgentSyncAnswer
from holdfast.core.fleet.model import Job
from holdfast.core.fleet.rules import FleetRules
from holdfast.errors import HoldfastError
from holdfast.fleet.agents.outputs import Redact, keep_all
from holdfast.store.script import Script


class AgentMessage(msgspec.Struct, frozen=True):
    """A sync of an agent whose credential and values were checked."""

    host_id: str
    sync: AgentSync


class CommandSource(Protocol):
    """What the executions of a job run."""

    def __call__(self, job: Job) -> RunCommand: ...


class BlockSource(Protocol):
    """Reads the blocks that count, in the transaction that judges by them."""

    def verdicts(
        self, runs: Sequence[Run], epochs: Mapping[str, int], now: float
    ) -> Script[BlockVerdict]:
        """What the blocks say about executions that would be offered."""
        ...

    def lists(
        self, agents: Mapping[str, str], epochs: Mapping[str, int], now: float
    ) -> Script[dict[str, list[AgentBlock]]]:
        """The blocks of each host, for agents that know older ones. `agents`: the project of each host."""
        ...


class SyncParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs of other parts."""

    rules: FleetRules
    command_of: CommandSource
    blocks: BlockSource
    redact: Redact = keep_all
    environment_of: EnvironmentOf = lambda command: dict(command.env)
    server_epoch: str = ""
    heartbeat_of: Callable[[str, int], float] = lambda host_id, seq: 25.0


SyncAnswer: TypeAlias = AgentSyncAnswer | HoldfastError
"""An agent that may not speak gets an error."""


class Synced(msgspec.Struct, frozen=True):
    """The answers of a batch, in the order of its messages, and what it did."""

    answers: list[SyncAnswer]
    figures: Counter[str]
    has_ended: bool = False
    """Whether an execution has ended: its job has something to do."""
    has_changed: bool = False
