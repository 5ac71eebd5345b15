"""What the parts of an engine need from each other and from what is below, as narrow protocols.

An engine with a database gets them from `Store` and from loops on it. A remote engine gets them from a
connection to a gateway (`holdfast.remote`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from holdfast.core.command import Instruction
from holdfast.core.decide import Ruling
from holdfast.core.task import Task


class Outcomes(Protocol):
    """Where the completer writes outcomes. See `Store`."""

    async def finish(
        self, ended: Sequence[tuple[Task, Instruction]], *, brief: bool = False
    ) -> list[Ruling]: ...

    async def finish_held(self, ended: Sequence[tuple[Task, Instruction]]) -> list[Ruling]: ...


class Claims(Protocol):
    """The loop that claims tasks for the pool, as a stop and an announcer use it."""

    name: str
    stopping: bool
    ending: bool
    ticking: asyncio.Lock

    @property
    def is_woken(self) -> bool: ...

    def worker_freed(self) -> None: ...

    def wake(self) -> None: ...

    async def step(self) -> float: ...


class GiveBack(Protocol):
    """Returns claimed tasks to the queue without spending an attempt."""

    async def __call__(self, instructions: Sequence[Instruction]) -> None: ...
