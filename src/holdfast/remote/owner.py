"""The engine that a link serves, as the link sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.task import RunId
from holdfast.core.worker.wire import CommandAck, CommandFrame
from holdfast.errors import HoldfastError
from holdfast.remote.losses import Losses


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a worker says about itself in `Hello`."""

    types: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    definitions_json: str


class LinkOwner(Protocol):
    """The engine that a link serves."""

    def served(self) -> Served:
        """What this worker runs now."""
        ...

    def held(self) -> Sequence[RunId]:
        """The runs that this worker holds."""
        ...

    def lose(self, losses: Losses) -> None:
        """The gateway says that these runs are not this worker's any more."""
        ...

    def obey(self, command: CommandFrame) -> CommandAck | None:
        """Carries out an operator's command. None: it is acknowledged later."""
        ...

    def drain(self) -> None:
        """The gateway asks to claim no more."""
        ...

    def joined(self, credential: str) -> None:
        """The gateway has given this worker a credential in place of its join token."""
        ...

    def connected(self) -> None:
        """A connection was established."""
        ...

    def failed(self, error: HoldfastError) -> None:
        """The link has ended for good."""
        ...
