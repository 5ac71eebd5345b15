"""What an agent stands on: ports that a real host, SSH and a simulation implement.

Promises: all of the agent's I/O goes through them, so the same agent runs in real and in virtual time, and
thousands of agents run in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from holdfast.core.fleet.agents.journal import ProcessEvidence, ProcessMark, Record, TokenLog
from holdfast.core.fleet.agents.wire import (
    AgentStart,
    AgentStarted,
    AgentSync,
    AgentSyncAnswer,
)


class Transport(Protocol):
    """The way to a gateway. GatewayUnavailable and other passing errors make the agent try again later."""

    async def start(self, start: AgentStart) -> AgentStarted: ...

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        """It may be cancelled while the server holds it."""
        ...


class Journal(Protocol):
    """What the agent has promised, on the disk."""

    journal_id: str

    async def load(self) -> list[TokenLog]:
        """All tokens, oldest first. Writes that were cut off are removed."""
        ...

    async def append(self, token: int, *records: Record, sync: bool = True) -> None:
        """Returns after the records are on the disk. DiskFull if they are not."""
        ...

    async def forget(self, tokens: Sequence[int]) -> None:
        """Removes the records of tokens. The newest token is kept: it must be refused for ever."""
        ...


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A command as an executor starts it."""

    run: str
    """The name of the run: its token, or `<token>-probe`."""
    argv: tuple[str, ...]
    env: dict[str, str] = {}
    run_as: str | None = None
    timeout_seconds: float = 60.0
    grace_seconds: float = 10.0
    output_bytes: int = 1_048_576
    """Kept of each stream."""


class StreamEnd(msgspec.Struct, frozen=True):
    """A stream of a command that has ended."""

    size: int = 0
    sha256: str = ""
    gap: tuple[int, int] = (0, 0)
    """(start, size) of what was dropped because of the limit."""


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, as its supervisor wrote it."""

    state: Literal["exited", "never_started"]
    """`never_started`: it was not released."""
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    killed: bool = False
    seconds: float = 0.0
    reason: str = ""
    streams: dict[str, StreamEnd] = {}


class Sight(msgspec.Struct, frozen=True):
    """What an executor sees of a run."""

    evidence: ProcessEvidence
    exit: ExitRecord | None = None
    sizes: dict[str, int] = {}
    """Bytes of each stream that can be read now, without gaps."""
    unkept_seconds: float | None = None
    """How long a command has run whose supervisor is gone: nothing else ends it at its time limit."""


class Executor(Protocol):
    """Starts commands and looks after them. A run lives on when the agent dies."""

    @property
    def boot_id(self) -> str:
        """Names the present boot of the host."""
        ...

    @property
    def poll_seconds(self) -> float | None:
        """How often the agent looks at runs that announce nothing. None: every change is announced."""
        ...

    async def prepare(self, work: Work) -> ProcessMark:
        """Makes the process, which waits. CannotStart if it cannot be made, DiskFull if it could be later."""
        ...

    async def release(self, run: str) -> None:
        """Lets it begin."""
        ...

    async def drop(self, run: str) -> None:
        """Ends a process that was not released."""
        ...

    async def look(self, run: str, process: ProcessMark) -> Sight: ...

    async def read(self, run: str, stream: str, start: int, size: int) -> str:
        """A part of the kept output, in base64. `start` counts bytes that were kept."""
        ...

    async def stop(self, run: str, process: ProcessMark) -> None:
        """Asks for the end of the command and its group: SIGTERM, and SIGKILL after the grace."""
        ...

    async def remove(self, run: str) -> None:
        """Forgets a run that has ended."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """`changed` is called when a run may have ended."""
        ...
