"""What a batch of syncs gets from other parts, and what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from holdfast.core.fleet.agent_facts import Run, RunCommand
from holdfast.core.fleet.agent_wire import AgentSync, AgentSyncAnswer
from holdfast.core.fleet.model import Job
from holdfast.core.fleet.offer_rules import BlockVerdict
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
    """Reads the blocks that count for some executions, in the transaction of their offers."""

    def __call__(
        self, runs: Sequence[Run], epochs: Mapping[str, int], now: float
    ) -> Script[BlockVerdict]: ...


def no_blocks(runs: Sequence[Run], epochs: Mapping[str, int], now: float) -> Script[BlockVerdict]:
    """A fleet without blocks."""
    yield from ()
    return lambda run: None


class SyncParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch needs of other parts."""

    rules: FleetRules
    command_of: CommandSource
    blocks: BlockSource = no_blocks
    redact: Redact = keep_all
    server_epoch: str = ""
    heartbeat_of: Callable[[str, int], float] = lambda host_id, seq: 25.0


SyncAnswer: TypeAlias = AgentSyncAnswer | HoldfastError
"""An agent that may not speak gets an error."""


class Synced(msgspec.Struct, frozen=True):
    """The answers of a batch, in the order of its messages, and what it did."""

    answers: list[SyncAnswer]
    figures: Counter[str]
    is_cut_short: bool = False
