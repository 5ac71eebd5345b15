"""The backend of a front: runs one command, or several as one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from holdfast.errors import HoldfastError
from holdfast.primitives.kv._op import Op, Reply, T, Words

Outcome: TypeAlias = "Reply | HoldfastError"
"""The result of one command of a transaction."""


class Session(Protocol):
    """A transaction between its watch and its end."""

    def commit(self, commands: Sequence[Words]) -> list[Outcome] | None:
        """Runs all commands as one transaction. None, and nothing was run, when a watched key has
        changed."""
        ...

    def cancel(self) -> None: ...


class KvBackend(Protocol):
    """The memory backend or a live Redis."""

    def execute(self, op: Op[T]) -> T: ...

    def begin(self, watch: Iterable[str]) -> Session:
        """Starts a transaction and watches keys from now on."""
        ...

    def close(self) -> None: ...


class AsyncSession(Protocol):
    """The same with `await`."""

    async def commit(self, commands: Sequence[Words]) -> list[Outcome] | None: ...

    async def cancel(self) -> None: ...


class AsyncBackend(Protocol):
    """The same with `await`."""

    async def execute(self, op: Op[T]) -> T: ...

    async def begin(self, watch: Iterable[str]) -> AsyncSession: ...

    async def close(self) -> None: ...
