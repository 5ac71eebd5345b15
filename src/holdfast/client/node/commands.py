"""Commands of operators for the runner of a claim, and what became of them.

Promises: a command that comes with every heartbeat until it is acknowledged is shown once. An acknowledgement
is kept until the server has it. An internal module.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.core.exchange.offline import Fields


class Command(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An act of an operator, for the runner."""

    id: str
    type: str
    task_id: str = ""
    reason: str = ""
    requested_by: str | None = None
    args: dict[str, Any] = {}
    fence: int | None = None


class Commands:
    """Those of one claim."""

    def __init__(self) -> None:
        self._waiting: dict[str, Command] = {}
        self._answered: set[str] = set()
        self.acks: list[Fields] = []
        """What the server has not got yet."""
        self.stirred = asyncio.Event()
        """Set when a command has come, or the claim has ended."""

    def take(self, commands: Any) -> None:
        """Adds those that an answer of the server brought."""
        for command in msgspec.convert(commands or [], list[Command]):
            if command.id not in self._answered:
                self._waiting.setdefault(command.id, command)
        if self._waiting:
            self.stirred.set()

    def first(self) -> Command | None:
        """The oldest that is not acknowledged."""
        return next(iter(self._waiting.values()), None)

    def acknowledge(self, command_id: str, outcome: str, detail: str) -> None:
        self._waiting.pop(command_id, None)
        self._answered.add(command_id)
        self.acks.append({"id": command_id, "outcome": outcome, "detail": detail})

    def acknowledge_all(self, detail: str) -> None:
        """The runner has stopped, which is what commands ask for."""
        for command_id in list(self._waiting):
            self.acknowledge(command_id, "done", detail)
