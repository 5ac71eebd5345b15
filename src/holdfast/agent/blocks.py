"""What an agent knows about blocks of its host.

Promises: a block counts from when the agent heard of it until its time is over by the monotonic clock, or
until a newer list came. The clock of the host decides nothing: a window is judged by the server, which says
how long it lasts.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.agent.settings import STALE_SECONDS
from holdfast.core.fleet.agents.wire import AgentBlock
from holdfast.core.fleet.hosts.selector_parse import glob_pattern


class BlockView:
    """The list of blocks as the server sent it last."""

    def __init__(self) -> None:
        self.epoch = 0
        self._heard_at: float | None = None
        self._blocks: list[tuple[AgentBlock, float | None]] = []

    def hear(self, epoch: int, blocks: Sequence[AgentBlock] | None, now: float) -> None:
        """What an answer said. An epoch that is newer than the list makes the view old until the list
        comes."""
        if blocks is not None:
            self.epoch = epoch
            self._blocks = [(block, _end(block, now)) for block in blocks]
        if epoch <= self.epoch:
            self._heard_at = now

    def blocking(self, command_type: str, now: float) -> AgentBlock | None:
        """The block that keeps commands of the type off this host."""
        for block, ends_at in self._blocks:
            is_over = ends_at is not None and now >= ends_at
            is_judged = block.window is None or ends_at is not None
            if (
                not is_over
                and is_judged
                and glob_pattern(block.command_type).fullmatch(command_type)
            ):
                return block
        return None

    def is_stale(self, now: float) -> bool:
        return self._heard_at is None or now - self._heard_at > STALE_SECONDS


def _end(block: AgentBlock, now: float) -> float | None:
    return None if block.expires_in_seconds is None else now + block.expires_in_seconds
