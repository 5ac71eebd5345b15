"""Stores without a database for tests of the sweeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

from holdfast.clock import VirtualClock
from holdfast.engine import pruning, sweeper
from holdfast.store.rows import NodeRow
from holdfast.store.scripts.edges import Linked
from holdfast.store.store import Swept
from holdfast.store.upkeep import NextUpkeep


class UpkeepStub:
    """The upkeep of a store: every duty asks `pruned` how many rows there were to remove."""

    def __init__(self, store: Parts) -> None:
        self.next = store.next
        self._pruned = store.pruned

    def __getattr__(self, duty: str) -> Any:
        async def prune(*, limit: int = 0, **_: object) -> int:
            return self._pruned(duty, limit)

        return prune


class Parts:
    """A store that is each of its parts itself."""

    @property
    def upkeep(self) -> UpkeepStub:
        return UpkeepStub(self)

    def pruned(self, duty: str, limit: int) -> int:
        """How many rows a duty found to remove."""
        return 0

    async def next(self) -> NextUpkeep:
        """There may be anything to do: the parts look for themselves."""
        return NextUpkeep(0.0, 0.0, True)

    @property
    def reads(self) -> Self:
        return self

    @property
    def feed(self) -> Self:
        return self

    @property
    def links(self) -> Self:
        return self

    @property
    def cascades(self) -> Self:
        return self


class Jumping(Parts):
    """A store whose time jumps during a sweep, as when the clock of a server is read again just then."""

    def __init__(self, jump: float = 500.0, lease_seconds: float = 9.0) -> None:
        self.at = 1_000.0
        self.swept_at: list[float] = []
        self._jump = jump
        self._lease_seconds = lease_seconds
        """The lease of another node."""

    def now(self) -> float:
        return self.at

    async def nodes(self) -> list[NodeRow]:
        info = f'{{"lease_seconds": {self._lease_seconds}}}'
        return [NodeRow("other", 0.0, self.at, info)]

    async def pending(self) -> list[str]:
        return []

    async def held(self) -> list[tuple[str, str]]:
        return []

    async def sweep(self, *, at: float | None = None, **_: object) -> Swept:
        self.swept_at.append(self.at)
        self.at += self._jump
        return Swept([], next_at=1_009.0)

    async def link(self, _: int, **__: object) -> Linked:
        return Linked(0, True)

    async def counters(self) -> list[object]:
        return []

    async def prune(self, **_: object) -> int:
        return 0


class Quiet(Jumping):
    """A store without due work. `broken`: statements and methods that fail."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.broken = broken
        self.done: list[str] = []
        self.is_held = False

    def _do(self, name: str) -> None:
        if name in self.broken:
            raise ValueError(name)
        self.done.append(name)

    async def sweep(self, **_: object) -> Swept:
        return Swept([])

    async def link(self, _: int, **__: object) -> Linked:
        return Linked(0, not self.is_held)

    @property
    def by_id(self) -> Quiet:
        return self

    async def deadlines(self) -> list[object]:
        return []

    async def prune(self, **_: object) -> int:
        self._do("prune")
        return 0

    def pruned(self, duty: str, limit: int) -> int:
        self._do(duty)
        return 0


def sweeping(
    store: object,
    clock: VirtualClock | None = None,
    *,
    retention: pruning.Retention | None = None,
    lease_seconds: float = 9.0,
    renewed_at: Callable[[], float] | None = None,
    is_looping: bool = False,
) -> sweeper.Sweeper:
    """The sweeper of node n."""
    made = sweeper.Sweeper(
        clock or VirtualClock(),
        cast(Any, store),
        retention or pruning.Retention(),
        lambda: None,
        node="n",
        lease_seconds=lease_seconds,
        renewed_at=renewed_at,
    )
    made.is_looping = is_looping
    return made


class AtRest(Quiet):
    """A store whose look finds `found`. `looks` counts them."""

    def __init__(self, found: NextUpkeep) -> None:
        super().__init__()
        self.found, self.looks = found, 0
        self.calls: list[str] = []

    async def next(self) -> NextUpkeep:
        self.looks += 1
        return self.found

    async def sweep(self, **_: object) -> Swept:
        self.calls.append("sweep")
        return Swept([])

    async def link(self, _: int, **__: object) -> Linked:
        self.calls.append("link")
        return Linked(0, True)

    async def pending(self) -> list[str]:
        self.calls.append("pending")
        return []

    async def deadlines(self) -> list[object]:
        self.calls.append("deadlines")
        return []
