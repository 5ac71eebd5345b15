"""The settings of a server, validated by the constructor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.config import FILE_NAME, read_tables
from holdfast.core import codec
from holdfast.core.check import check_number, check_positive, check_whole
from holdfast.core.redaction import Redaction
from holdfast.core.subscription import BUFFER_BYTES, STALL_SECONDS, FlowBounds
from holdfast.core.token import check_bootstrap, check_listen
from holdfast.errors import BadConfig
from holdfast.fleet.secret_values import SecretValues
from holdfast.gateway.feed.entries import RING_EVENTS
from holdfast.gateway.feed.requests import FRAME_BYTES_MAX, PING_SECONDS
from holdfast.gateway.fleet_settings import FleetSettings, WebhookSettings, check_tables
from holdfast.gateway.sections import (
    DecisionSettings,
    InterventionSettings,
    KeepSettings,
    SyncSettings,
    TaskSettings,
    check_variables,
    read_section,
)
from holdfast.variables import variable

__all__ = ["fleet_options"]
ADMIN_TOKEN: Final = "HOLDFAST_ADMIN_TOKEN"
BODY_BYTES: Final = 1_048_576
DEPTH_MAX: Final = codec.DEPTH_MAX + 8
RATE_PER_SECOND: Final = 100.0
BURST: Final = 200
BUFFER_TOTAL_BYTES: Final = 268_435_456
OTHERS: Final[dict[str, type[msgspec.Struct]]] = {
    "sync": SyncSettings,
    "keep": KeepSettings,
    "intervention": InterventionSettings,
    "decision": DecisionSettings,
    "task": TaskSettings,
    "fleet": FleetSettings,
    "webhooks": WebhookSettings,
}
SECTIONS: Final = ("server", *OTHERS)
LISTS: Final = ("origins", "redact_fields", "redact_patterns", "allow")
"""Settings that a variable gives with commas between their values."""
TABLES: Final = ("command_types", "approval_rules", "secrets")
"""Settings that a variable gives as JSON."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """See docs/reference/server.md."""

    host: str = "127.0.0.1"
    port: int = 8787
    grpc_port: int | None = None
    """None: the port after `port`, if grpcio is installed. -1: no gRPC."""
    base_path: str = ""
    origins: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    client_ca: str | None = None
    redis: str | None = None
    """Carries hints between gateways, and caches the latest events for clients that reconnect."""
    body_bytes: int = BODY_BYTES
    rate_per_second: float = RATE_PER_SECOND
    burst: int = BURST
    ring_events: int = RING_EVENTS
    """Decoded events that the live feed keeps for clients that are a little behind."""
    buffer_bytes: int = BUFFER_BYTES
    """Unread bytes of a connection of the live feed, after which it is parked."""
    buffer_total_bytes: int = BUFFER_TOTAL_BYTES
    """Unread bytes of all connections, after which no further one is accepted."""
    stall_seconds: float = STALL_SECONDS
    """How long a parked connection may read nothing before it is closed."""
    frame_bytes: int = FRAME_BYTES_MAX
    """The largest frame of a client of the live feed."""
    ping_seconds: float = PING_SECONDS
    """How often a WebSocket is pinged."""
    redact_fields: tuple[str, ...] = ()
    """Names of fields whose values are hidden, beside those of `core.redaction.FIELDS`."""
    redact_patterns: tuple[str, ...] = ()
    """Regular expressions of texts that are hidden."""
    admin_token: str | None = None
    has_tokens: bool = False
    """Whether the store has tokens, so that requests are authenticated without an admin token."""
    sync: SyncSettings = SyncSettings()
    keep: KeepSettings = KeepSettings()
    intervention: InterventionSettings = InterventionSettings()
    decision: DecisionSettings = DecisionSettings()
    task: TaskSettings = TaskSettings()
    fleet: FleetSettings = FleetSettings()
    webhooks: WebhookSettings = WebhookSettings()

    def __post_init__(self) -> None:
        wrong = BadConfig
        check_whole("port", self.port, least=0, most=65_535, wrong=wrong)
        if self.grpc_port is not None:
            check_whole("grpc_port", self.grpc_port, least=-1, most=65_535, wrong=wrong)
        check_whole("body_bytes", self.body_bytes, least=1_024, most=2**30, wrong=wrong)
        check_whole("burst", self.burst, least=1, most=10**6, wrong=wrong)
        for name, least, most in (
            ("ring_events", 1, 10**7),
            ("buffer_bytes", 4_096, 2**30),
            ("buffer_total_bytes", 4_096, 2**40),
            ("frame_bytes", 1_024, 2**24),
        ):
            check_whole(name, getattr(self, name), least=least, most=most, wrong=wrong)
        check_number("ping_seconds", self.ping_seconds, least=1, most=3_600, wrong=wrong)
        check_positive("stall_seconds", self.stall_seconds, most=86_400, wrong=wrong)
        check_positive("rate_per_second", self.rate_per_second, most=1e6, wrong=wrong)
        if self.base_path and not (self.base_path.startswith("/") and self.base_path[-1] != "/"):
            raise BadConfig(f"base_path is '{self.base_path}': write it as /holdfast")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadConfig("tls_cert and tls_key belong together: give both")
        if self.client_ca is not None and self.tls_cert is None:
            raise BadConfig("client_ca needs tls_cert and tls_key")
        if self.admin_token is not None:
            check_bootstrap(self.admin_token)
        self.redaction()
        check_listen(self.host, has_auth=self.has_auth, has_tls=self.tls_cert is not None)

    @property
    def grpc_listens(self) -> int | None:
        """The port of gRPC: 0 for any free one, None for no gRPC."""
        if self.grpc_port is None:
            return self.port + 1 if 0 < self.port < 65_535 else 0
        return None if self.grpc_port < 0 else self.grpc_port

    @property
    def flow(self) -> FlowBounds:
        return FlowBounds(self.buffer_bytes, self.buffer_bytes // 4, self.stall_seconds)

    def redaction(self) -> Redaction:
        """The rules of this server."""
        secrets = () if self.admin_token is None else (self.admin_token,)
        return Redaction(self.redact_fields, self.redact_patterns, secrets)

    def queue_settings(self) -> dict[str, Any]:
        """What the settings say about the queue of this server, by the names of its settings."""
        given = {
            "decision_deadline": self.decision.deadline_default_seconds,
            "progress_timeout": self.task.progress_timeout_seconds,
            "affinity_seconds": self.sync.affinity_seconds,
            "reassign_fallback_seconds": self.sync.reassign_fallback_seconds,
        }
        given = {name: value for name, value in given.items() if value is not None}
        return self.keep.queue_settings() | given

    @property
    def has_auth(self) -> bool:
        return self.admin_token is not None or self.has_tokens


def admin_token(environ: Mapping[str, str]) -> str | None:
    """The bootstrap token: HOLDFAST_ADMIN_TOKEN, or the content of the file HOLDFAST_ADMIN_TOKEN_FILE."""
    text = variable(environ, ADMIN_TOKEN)
    return None if text is None else check_bootstrap(text)


def server_settings(
    document: Mapping[str, Mapping[str, object]],
    environ: Mapping[str, str],
    flags: Mapping[str, object],
) -> ServerSettings:
    """The settings of a server from the tables of holdfast.toml, the environment and flags."""
    check_variables(environ, SECTIONS)
    check_tables(document.get("fleet", {}))
    sections = {
        name: read_section(
            kind, name, document.get(name, {}), environ, {}, lists=LISTS, tables=TABLES
        )
        for name, kind in OTHERS.items()
    }
    return read_section(
        ServerSettings,
        "server",
        document.get("server", {}),
        environ,
        {**flags, **sections},
        lists=LISTS,
        hidden=("admin_token", "has_tokens", *OTHERS),
    )


def fleet_options(
    path: Path | str = FILE_NAME, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a file of settings and the environment say about the fleet, for `fleet.celery.install`."""
    variables = os.environ if environ is None else environ
    fleet = server_settings(read_tables(Path(path)), variables, {}).fleet
    return {
        "rules": fleet.rules,
        "secrets": SecretValues(fleet.secrets, variables),
        "ssh": fleet.ssh,
    }
