"""What worker sync needs from the rest of the gateway: commands, news of work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from holdfast.core.speaking import Voice
from holdfast.core.worker.wire import CommandAck, CommandFrame, Decided

Listen: TypeAlias = Callable[[Callable[[], None]], Callable[[], None]]
"""Calls a function whenever there may be new work. Returns what ends that."""


class CommandSource(Protocol):
    """Where commands and decisions for workers come from. A command is pending until it is acknowledged."""

    async def pending(self, node: str) -> Sequence[CommandFrame | Decided]:
        """What this node has to get, in order of issue. Each command names the fence that it is for."""
        ...

    async def acknowledge(self, voice: Voice, ack: CommandAck) -> None:
        """The runner's answer to a command. NodeFenced or UnknownNode if it may not speak."""
        ...

    async def wait(self, node: str) -> None:
        """Waits until there may be something new for this node."""
        ...
