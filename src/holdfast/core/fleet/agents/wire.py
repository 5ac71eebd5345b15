"""The messages between an agent and a gateway (`/agent/v1`), as structs.

Promises: an agent ignores fields that it does not know; the server refuses them. Every part of a sync is
idempotent by itself: results by id, chunks by start, accepts and phases by (token, order of phases). So lost,
repeated and reordered syncs do no harm.
Never: absolute times that a receiver computes with; durations travel.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core import codec, text

CHUNK_BYTES_MAX: Final = 262_144
"""Raw bytes of one chunk of output."""
STREAM_BYTES_MAX: Final = 2**50
"""How long a stream of a run may be, with what is missing of it: more than a pipe carries in a week. Without
a bound, one wrong number of an agent would hide all that its command writes after it."""
SYNC_BYTES_MAX: Final = 4_194_304
WAIT_SECONDS_MAX: Final = 30.0
ITEMS_MAX: Final = 500
"""Items of each list of a sync."""
REASON_CHARS_MAX: Final = 2_000
"""Characters of the reason of a result or of an acknowledgement. The rest is cut off."""


class AgentEnrol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new agent introduces itself with a join token."""

    host: str
    """The name of the host."""
    boot_id: str
    """Names the boot of the host: no process outlives it."""
    journal_id: str
    """Names the journal: another one proves nothing about earlier tokens."""
    version: str = ""
    facts: dict[str, codec.Json] = {}
    labels: dict[str, str] = {}


class AgentEnrolled(msgspec.Struct, frozen=True, kw_only=True):
    host_id: str
    agent_id: str
    """The id of the node: that of the host."""
    credential: str
    incarnation: int
    heartbeat_seconds: float
    server_epoch: str


class AgentStart(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A start of an agent that has a credential. Each start is a new incarnation, also a repeated one."""

    boot_id: str
    journal_id: str
    version: str = ""
    facts: dict[str, codec.Json] = {}
    session: str = ""
    """Names the process, once another incarnation has fenced it. Two processes of one boot that fence each
    other return with their names, and one that restarts does not."""


class AgentStarted(msgspec.Struct, frozen=True, kw_only=True):
    host_id: str
    incarnation: int
    heartbeat_seconds: float
    server_epoch: str
    last_token: int = 0
    """The newest token of the host's slot. The agent refuses older ones."""


class TokenRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An execution under a token."""

    execution: str
    token: int


class AgentRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that the agent has."""

    execution: str
    token: int
    phase: str
    """`accepted`, `go` or `started`."""
    log_end: dict[str, int] = {}


class AgentChunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes of a stream of a run."""

    execution: str
    token: int
    stream: str
    start: int
    data_base64: str = ""
    gap: int = 0
    """Bytes that the agent dropped at `start`, instead of data."""


class AgentResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a run, or what the journal proves about it."""

    id: str
    execution: str
    token: int
    state: str
    """`exited`, `never_started`, `refused` or `unknown`."""
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    killed: bool = False
    """Whether a command of the server ended it."""
    seconds: float = 0.0
    sizes: dict[str, int] = {}
    sha256: dict[str, str] = {}
    gaps: dict[str, list[tuple[int, int]]] = {}
    """(start, size) of bytes that the agent dropped, by stream."""
    reason: str = ""
    is_unheard: bool = False
    """Whether the journal has no record of the token at all."""


class AgentCommandAck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a command of the server ended."""

    id: str
    outcome: str
    """`done` or `refused`."""
    reason: str = ""


class AgentSpool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entries: int = 0
    bytes: int = 0


class AgentSync(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What an agent reports, and what it asks for. What has its default is not sent, so that an older gateway
    gets new fields only when they say something."""

    boot_id: str
    incarnation: int
    seq: int
    """Rises with each call of an incarnation. An older one gets acknowledgements, but no offers."""
    wait_seconds: float = 0.0
    block_epoch: int = 0
    capacity: int = 1
    """0: no offers, because the agent drains or its spool is full."""
    spool: AgentSpool = AgentSpool()
    accepts: list[TokenRef] = []
    refuses: list[AgentResult] = []
    """Offers that the agent does not take. `refused`: it never will, and the execution has failed.
    `never_started`: not now, e.g. because its spool is full. The execution is offered again later."""
    running: list[AgentRun] = []
    chunks: list[AgentChunk] = []
    results: list[AgentResult] = []
    command_acks: list[AgentCommandAck] = []
    last_token: int = 0
    """The newest token of the journal, said after an offer whose token was older: the store was restored from
    a backup. The next offer gets a higher one."""


class AgentOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A command for the host. Without `go` the agent must not start it."""

    execution: str
    fence: int
    token: int
    job: str
    command_type: str
    kind: str
    """`noop`, `argv`, `shell` or `builtin`."""
    argv: list[str] = []
    env: dict[str, str] = {}
    secret_env: list[str] = []
    """Variables of `env` whose values are secrets: the agent removes them from output before it sends it."""
    run_as: str | None = None
    accept_within_seconds: float = 10.0
    exec_timeout_seconds: float = 60.0
    grace_seconds: float = 10.0
    on_restart: str = "report_unknown"
    probe_argv: list[str] = []
    output_bytes: int = 1_048_576
    ok_codes: list[int] = msgspec.field(default_factory=lambda: [0])
    digest: str = ""
    go: bool = False


class AgentWithdrawal(msgspec.Struct, frozen=True):
    """An offer that does not count any more. A run that has started is stopped by a command instead."""

    execution: str
    token: int
    reason: str = ""


class AgentCommand(msgspec.Struct, frozen=True):
    """A command about a run. It is repeated until it is acknowledged."""

    id: str
    type: str
    """`ABORT`."""
    execution: str
    token: int


class AgentBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block that counts for this host, as the agent enforces it while it is cut off."""

    id: str
    command_type: str
    reason: str
    expires_in_seconds: float | None = None
    window: dict[str, object] | None = None


class AgentSyncAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server took, and what the agent has to do."""

    seq: int
    heartbeat_seconds: float
    lease_seconds: float
    server_epoch: str
    block_epoch: int = 0
    blocks: list[AgentBlock] | None = None
    """All blocks of the host, if the agent's epoch is old."""
    offers: list[AgentOffer] = []
    go: list[TokenRef] = []
    withdraw: list[AgentWithdrawal] = []
    commands: list[AgentCommand] = []
    acks: list[str] = []
    """Ids of results that are stored: the agent forgets them."""
    log_next: dict[str, int] = {}
    """`execution/stream` -> the next byte that the server wants."""
    probe: list[TokenRef] = []
    """Runs that the server wants to know about."""
    acked_token: int = 0
    """Journals of tokens up to this one may be forgotten."""


def reason_of(said: str) -> str:
    """A reason as a message has it: one printable line within the bound. A reason comes from the host, so it
    may be anything, and it must not keep a result from being taken."""
    return text.one_line(said[: 2 * REASON_CHARS_MAX])[:REASON_CHARS_MAX]
