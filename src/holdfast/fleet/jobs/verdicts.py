"""What blocks say about the hosts of a job, and the digest that is bound to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from holdfast.core.fleet.blocks import block as rules
from holdfast.core.fleet.blocks.block import Held, Refused
from holdfast.core.fleet.commands.command_type import CommandType
from holdfast.core.fleet.commands.secrets import versions
from holdfast.core.fleet.hosts.selector_parse import Selector, may_ask_facts
from holdfast.core.fleet.jobs.spec import JobSpec, digest_of
from holdfast.core.fleet.model import Block, Host, HostDriver
from holdfast.core.fleet.status import ExecutionKind
from holdfast.core.gate import BLOCK_ACTOR
from holdfast.fleet.hosts.groups import named_by
from holdfast.fleet.jobs.ending import Reason
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import BLOCKS
from holdfast.store.script import Script, call

Judged = tuple[str, Reason]
"""The actor that a block is, and why."""


class BlocksInForce:
    """The blocks of a project that may count for a command type at one time."""

    def __init__(
        self,
        blocks: Sequence[Block],
        groups: dict[str, Selector],
        command_type: str,
        now: float,
    ) -> None:
        self._blocks = blocks
        self._groups = groups
        self._command_type = command_type
        self._now = now
        self._by_host: dict[str, list[Block]] = {}

    def over(self, hosts: Iterable[Host]) -> Self:
        """Finds the blocks about all these hosts at once: a selector costs as much for all as for one."""
        if self._blocks:
            self._by_host |= rules.by_host(self._blocks, list(hosts), self._groups)
        return self

    def _about(self, host: Host) -> list[Block]:
        if host.id not in self._by_host:
            self.over([host])
        return self._by_host[host.id]

    @property
    def ask_facts(self) -> bool:
        """Whether the facts of hosts have to be read before their blocks are found."""
        return any(may_ask_facts(block.selector) for block in self._blocks)

    @property
    def any(self) -> bool:
        return bool(self._blocks)

    def matching(self, hosts: Sequence[Host]) -> list[Block]:
        """Those that match a host, whatever their windows."""
        if not self._blocks:
            return []
        self.over([host for host in hosts if host.id not in self._by_host])
        matching = {block.id for host in hosts for block in self._by_host[host.id]}
        return [block for block in self._blocks if block.id in matching]

    def verdict(self, host: Host) -> Refused | Held | None:
        if not self._blocks:
            return None
        return rules.verdict_of(self._about(host), self._now)

    def judged(self, verdict: Refused | Held) -> Judged:
        """Who ends or holds an execution, and why."""
        block = verdict.block
        text = rules.block_text(block, self._now)
        if isinstance(verdict, Refused):
            return BLOCK_ACTOR + block.id, Reason(ExecutionKind.BLOCKED, text)
        return BLOCK_ACTOR + block.id, Reason(None, text, block.id)

    def explain(self, host: Host) -> list[rules.BlockExplanation]:
        """Every block about the host, those in force first."""
        return rules.explain(self._blocks, host, self._command_type, self._now, self._groups)

    def stopping(self, host: Host) -> Block | None:
        """The block that ends what runs on the host."""
        if not self._blocks:
            return None
        ending = (block for block in self._about(host) if rules.ends_runs(block, self._now))
        return next(ending, None)


def read_blocks(project: str, command_type: str, now: float) -> Script[BlocksInForce]:
    """The blocks of a project for a command type."""
    rows = yield call(own("blocks_in_force"), project=project, now=now)
    blocks = [block for block in BLOCKS.read_all(rows) if rules.matches_type(block, command_type)]
    groups = yield from named_by(project, (block.selector for block in blocks))
    return BlocksInForce(blocks, groups, command_type, now)


def pinned_digest(
    spec: JobSpec, definition: CommandType, hosts: Sequence[Host], blocks: BlocksInForce
) -> str:
    """The digest of a job with these targets, now."""
    matching = blocks.matching(hosts)
    ids = [host.id for host in hosts]
    driven = [
        (host.id, host.driver.value, host.address)
        for host in hosts
        if host.driver is not HostDriver.AGENT
    ]
    return digest_of(spec, definition, ids, matching, versions(spec.secrets), driven=driven)
