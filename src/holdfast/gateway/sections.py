"""The sections of a server's settings beside `[server]`, and how a section is read.

Promises: `holdfast.toml`, then `HOLDFAST_SECTION__KEY` (or `..._FILE`, a file with the value), then a flag;
the last that has a value wins. An unknown section or key is refused, with the nearest name.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.affinity import AFFINITY_SECONDS
from holdfast.core.check import check_number, check_positive, check_whole
from holdfast.core.hub_rules import DAY_SECONDS, LEASE_SECONDS, LEASE_SECONDS_MAX, HubRules
from holdfast.core.intervention import EXPIRES_SECONDS, FALLBACK_SECONDS
from holdfast.core.node_identity import HEARTBEAT_SECONDS
from holdfast.core.worker.protocol import Window
from holdfast.core.worker.wire import WINDOW_BYTES, WINDOW_FRAMES, WINDOW_FRAMES_MAX
from holdfast.errors import BadConfig
from holdfast.fleet.retention import FleetRetention
from holdfast.sync.worker.group_commit import GATHER_SECONDS
from holdfast.variables import read_value

S = TypeVar("S", bound=msgspec.Struct)
FILE: Final = "_file"
MS: Final = 1_000
OF_FLEET: Final = ("jobs", "deliveries")
"""Keys of `[keep]` that are not about the queue."""


class SyncSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Worker sync."""

    window_frames: int = WINDOW_FRAMES
    """messages of a worker that may wait for their acknowledgement"""
    window_bytes: int = WINDOW_BYTES
    """their bytes"""
    group_commit_ms: float = GATHER_SECONDS * MS
    """how long messages of workers wait for others, to share a commit"""
    lease_default_seconds: float = LEASE_SECONDS
    """the lease of a node's claim that asks for none"""
    lease_max_seconds: float = LEASE_SECONDS_MAX
    """the longest lease of a node or a worker"""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    """how often a registered node says that it lives"""
    require_fence: bool = False
    """every node has to send the fence of its runs"""
    reassign_fallback_seconds: float = FALLBACK_SECONDS
    """how long a task waits for the node that it was reassigned to, unless the request says it"""
    affinity_seconds: float = AFFINITY_SECONDS
    """how long a task that is resumed, or whose decision was made, prefers the node that ran it"""

    def __post_init__(self) -> None:
        self.rules  # noqa: B018  # checks the values
        frames_max = WINDOW_FRAMES_MAX
        check_whole("window_frames", self.window_frames, least=1, most=frames_max, wrong=BadConfig)
        check_whole("window_bytes", self.window_bytes, least=1_024, most=2**30, wrong=BadConfig)
        most = DAY_SECONDS
        check_number("affinity_seconds", self.affinity_seconds, most=most, wrong=BadConfig)
        check_number("group_commit_ms", self.group_commit_ms, most=1_000, wrong=BadConfig)

    @property
    def rules(self) -> HubRules:
        return HubRules(
            lease_default_seconds=self.lease_default_seconds,
            lease_max_seconds=self.lease_max_seconds,
            heartbeat_seconds=self.heartbeat_seconds,
            require_fence=self.require_fence,
            reassign_fallback_seconds=self.reassign_fallback_seconds,
        )

    @property
    def window(self) -> Window:
        return Window(self.window_frames, self.window_bytes)

    @property
    def gather_seconds(self) -> float:
        return self.group_commit_ms / MS


class KeepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long ended things are kept, in seconds. None: as the queue is set. Without effect with `--workers`:
    the queue of the code has its own settings."""

    done: float | None = None
    """completed and aborted tasks"""
    dead: float | None = None
    """dead letters"""
    events: float | None = None
    """events of the feed"""
    conflicts: float | None = None
    """settled conflicts"""
    sync_log: float | None = None
    """the log of the exchange with nodes"""
    tombstones: float | None = None
    """names of tasks that were removed"""
    mutations: float | None = None
    """answers to mutation ids"""
    output: float | None = None
    """output of ended tasks"""
    audit: float | None = None
    """the audit; for ever unless it is given"""
    jobs: float = FleetRetention().job_seconds
    """jobs of the fleet, with all that belongs to them"""
    deliveries: float = FleetRetention().delivery_seconds
    """deliveries of webhooks that are done"""

    def __post_init__(self) -> None:
        for name in OF_FLEET:
            check_number(name, getattr(self, name), most=1e9, wrong=BadConfig)

    @property
    def fleet(self) -> FleetRetention:
        return FleetRetention(self.jobs, self.deliveries)

    def queue_settings(self) -> dict[str, Any]:
        """The settings of a queue that are given, by name."""
        given = msgspec.structs.asdict(self)
        given = {name: value for name, value in given.items() if name not in OF_FLEET}
        return {f"keep_{name}": value for name, value in given.items() if value is not None}


class InterventionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Interventions of operators."""

    expiry_seconds: float = EXPIRES_SECONDS
    """how long a command is sent to its runner, unless the request says it"""

    def __post_init__(self) -> None:
        check_positive("expiry_seconds", self.expiry_seconds, most=1e9, wrong=BadConfig)


class DecisionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of tasks to people."""

    deadline_default_seconds: float | None = None
    """the deadline of a question that has none"""

    def __post_init__(self) -> None:
        if self.deadline_default_seconds is not None:
            name, value = "deadline_default_seconds", self.deadline_default_seconds
            check_positive(name, value, most=1e9, wrong=BadConfig)


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks whose caller and type leave it open."""

    progress_timeout_seconds: float | None = None
    """how long a run may go without progress before the task is stuck"""

    def __post_init__(self) -> None:
        if self.progress_timeout_seconds is not None:
            name, value = "progress_timeout_seconds", self.progress_timeout_seconds
            check_positive(name, value, most=1e9, wrong=BadConfig)


def read_section(
    kind: type[S],
    name: str,
    table: Mapping[str, object],
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    *,
    lists: tuple[str, ...] = (),
    tables: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
) -> S:
    """One section. `lists`: keys whose variable has commas between its values. `tables`: those whose variable
    is JSON. `hidden`: keys that only `flags` may have."""
    given = dict(table)
    prefix = f"HOLDFAST_{name.upper()}__"
    for variable, text in environ.items():
        if variable.startswith(prefix):
            key, value = _value_of(variable, variable.removeprefix(prefix).lower(), text)
            if key in lists:
                given[key] = tuple(value.split(","))
            else:
                given[key] = _table(variable, value) if key in tables else value
    known = [field for field in kind.__struct_fields__ if field not in hidden]
    for key in given:
        if key not in known:
            raise BadConfig(f"[{name}] has no setting '{key}'{nearest(key, known)}")
    given |= {key: value for key, value in flags.items() if value is not None}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadConfig(f"[{name}]: {error}") from None


def check_variables(environ: Mapping[str, str], sections: tuple[str, ...]) -> None:
    """BadConfig for a variable of a section that does not exist."""
    for variable in environ:
        section, has_key, _ = variable.removeprefix("HOLDFAST_").partition("__")
        if variable.startswith("HOLDFAST_") and has_key and section.lower() not in sections:
            text = nearest(section.lower(), sections)
            raise BadConfig(f"{variable}: there is no section '{section.lower()}'{text}")


def nearest(name: str, known: Any) -> str:
    """What a message about an unknown name adds."""
    close = get_close_matches(name, known, n=1)
    return (
        f": did you mean '{close[0]}'?" if close else f": it is one of {', '.join(sorted(known))}"
    )


def _value_of(variable: str, key: str, text: str) -> tuple[str, str]:
    if not key.endswith(FILE):
        return key, text
    return key.removesuffix(FILE), read_value(variable, text)


def _table(variable: str, text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise BadConfig(f"{variable} is not JSON: write a table as an object") from None
