"""What worker sync needs from the rest of the gateway: identities, commands, news of work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from holdfast.core.speaking import Voice
from holdfast.core.worker_wire import CommandAck, CommandFrame, Decided


class WorkerPrincipal(Protocol):
    """The node behind a credential. The project never comes from a message, and the node only where the
    credential may speak for any node."""

    @property
    def node(self) -> str:
        """Empty until `named`, for a credential that is not bound to a node."""
        ...

    @property
    def project(self) -> str: ...

    @property
    def kind(self) -> str:
        """The kind that the node registers as: `worker` or `plugin`."""
        ...

    @property
    def join_token_id(self) -> str | None:
        """The id of the join token that pays for the registration of a new node."""
        ...

    def named(self, worker_id: str) -> WorkerPrincipal:
        """The principal of a `Hello` that names a worker. Forbidden if it may not speak for it."""
        ...


Authenticate: TypeAlias = Callable[[str], Awaitable[WorkerPrincipal]]
"""The principal of a bearer token that may call `sync.run`. Raises Unauthenticated or Forbidden."""
Listen: TypeAlias = Callable[[Callable[[], None]], Callable[[], None]]
"""Calls a function whenever there may be new work. Returns what ends that."""


def rechecking(
    authenticate: Authenticate, principal: WorkerPrincipal, secret: str
) -> Callable[[str], Awaitable[object]]:
    """Checks the credential of a connection again. A join token may be used up by then: the node's own
    credential, which the connection was given, counts in its place."""

    async def recheck(issued: str) -> object:
        if issued:
            return await authenticate(issued)
        return None if principal.join_token_id is not None else await authenticate(secret)

    return recheck


class Admitted(NamedTuple):
    """A connection that may speak."""

    principal: WorkerPrincipal
    recheck: Callable[[str], Awaitable[object]]
    """See `WorkerSession`."""
    close: Callable[[], None] = lambda: None
    """The connection has ended: it no longer counts for its credential."""
    joined: Callable[[str], None] = lambda _: None
    """A join token has made a node: the connection counts for this node."""


Admit: TypeAlias = Callable[[str, str], Awaitable[Admitted]]
"""Admits a connection by its bearer token, from an address."""


def admitting(authenticate: Authenticate) -> Admit:
    """Admits every connection that `authenticate` accepts."""

    async def admit(secret: str, address: str = "") -> Admitted:
        del address
        principal = await authenticate(secret)
        return Admitted(principal, rechecking(authenticate, principal, secret))

    return admit


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


class NoCommands:
    """A source without commands."""

    async def pending(self, node: str) -> Sequence[CommandFrame | Decided]:
        return ()

    async def acknowledge(self, voice: Voice, ack: CommandAck) -> None:
        return None

    async def wait(self, node: str) -> None:
        await asyncio.Event().wait()
