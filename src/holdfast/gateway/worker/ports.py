"""What worker sync needs from the rest of the gateway: identities, commands, news of work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from holdfast.core.worker_wire import CommandAck, CommandFrame, Decided


class WorkerPrincipal(Protocol):
    """The node behind a credential. Node and project never come from a message."""

    @property
    def node(self) -> str: ...

    @property
    def project(self) -> str: ...

    @property
    def kind(self) -> str:
        """The kind that the node registers as: `worker` or `plugin`."""
        ...


Authenticate: TypeAlias = Callable[[str], Awaitable[WorkerPrincipal]]
"""The principal of a bearer token that may call `sync.run`. Raises Unauthenticated or Forbidden."""
WaitForWork: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits until there may be new work, at most these seconds."""


class CommandSource(Protocol):
    """Where commands and decisions for workers come from. A command is pending until it is acknowledged."""

    async def pending(self, node: str) -> Sequence[CommandFrame | Decided]:
        """What this node has to get, in order of issue. Each command names the fence that it is for."""
        ...

    async def acknowledge(self, node: str, ack: CommandAck) -> None:
        """The runner's answer to a command."""
        ...

    async def wait(self, node: str) -> None:
        """Waits until there may be something new for this node."""
        ...


class NoCommands:
    """A source without commands."""

    async def pending(self, node: str) -> Sequence[CommandFrame | Decided]:
        return ()

    async def acknowledge(self, node: str, ack: CommandAck) -> None:
        return None

    async def wait(self, node: str) -> None:
        await asyncio.Event().wait()
