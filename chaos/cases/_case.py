"""What a case is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from chaos.stage import Stage

SERVERS = frozenset({"postgres", "redis"})
EVERYWHERE = SERVERS | {"sqlite"}


async def nothing(_stage: Stage) -> None:
    """Most cases leave nothing behind."""


@dataclass(frozen=True)
class Case:
    """`strike` calls `stage.strike()` when the fault begins and `stage.heal()` when it is over."""

    name: str
    title: str
    stores: frozenset[str]
    strike: Callable[[Stage], Awaitable[None]]
    clean_up: Callable[[Stage], Awaitable[None]] = nothing
    """After the load."""
    needs_proxy: bool = False
    needs_small_disk: bool = False
    adapters: frozenset[str] = frozenset()
    """Whose case it is; empty: everybody's."""
    is_burst: bool = False
    """Takes long to drain."""
