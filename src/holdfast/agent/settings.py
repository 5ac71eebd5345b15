"""How one agent is set: names, what it may run, its bounds."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.fleet.hosts.selector_parse import glob_pattern

ALL: Final = "*"
STALE_SECONDS: Final = 300.0
"""An older view of the blocks is stale."""


class StaleBlocks(StrEnum):
    """What an agent does that has not heard about blocks for `STALE_SECONDS`."""

    STRICT = "strict"
    """It starts nothing."""
    BEST_EFFORT = "best_effort"
    """It goes by what it knows."""


class OnStop(StrEnum):
    """What becomes of commands that run when the agent is stopped."""

    LEAVE = "leave"
    """They go on; the next start of the agent reports them."""
    WAIT = "wait"
    """The agent ends after them."""


class TransportKind(StrEnum):
    """How an agent speaks to its gateways."""

    HTTP = "http"
    """One call at a time, which the server holds."""
    WEBSOCKET = "websocket"
    """One connection for all syncs."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an agent."""

    version: str = ""
    allow: tuple[str, ...] = (ALL,)
    """Globs over names of command types. The kind `shell` needs a pattern other than `*`."""
    stale_blocks: StaleBlocks = StaleBlocks.STRICT
    on_stop: OnStop = OnStop.LEAVE
    wait_seconds: float = 25.0
    """How long a poll is held, unless the server names a shorter time."""
    settle_seconds: float = 0.05
    """How long the agent waits for the end of a short command before it reports the start."""
    flush_seconds: float = 1.0
    """How often growing output is sent."""
    starts_again: int = 3
    """How often within ten minutes the agent starts again because another incarnation counts."""
    update_argv: tuple[str, ...] = ()
    """The command of the builtin `update`. Empty: updates are refused."""

    def allows(self, command_type: str, kind: str) -> bool:
        """Whether the agent runs commands of the type."""
        patterns = [p for p in self.allow if kind != "shell" or p != ALL]
        return any(glob_pattern(pattern).fullmatch(command_type) for pattern in patterns)
