"""The settings of a server, validated by the constructor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.check import check_positive, check_whole
from holdfast.core.redaction import Redaction
from holdfast.core.token import check_bootstrap, check_listen
from holdfast.errors import BadConfig

ADMIN_TOKEN: Final = "HOLDFAST_ADMIN_TOKEN"
PREFIX: Final = "HOLDFAST_SERVER__"
BODY_BYTES: Final = 1_048_576
DEPTH_MAX: Final = codec.DEPTH_MAX + 8
RATE_PER_SECOND: Final = 100.0
BURST: Final = 200
SECRET_BYTES_MAX: Final = 10_000
LISTS: Final = ("origins", "redact_fields", "redact_patterns")
"""Settings that a variable gives with commas between their values."""


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
    redact_fields: tuple[str, ...] = ()
    """Names of fields whose values are hidden, beside those of `core.redaction.FIELDS`."""
    redact_patterns: tuple[str, ...] = ()
    """Regular expressions of texts that are hidden."""
    admin_token: str | None = None
    has_tokens: bool = False
    """Whether the store has tokens, so that requests are authenticated without an admin token."""

    def __post_init__(self) -> None:
        wrong = BadConfig
        check_whole("port", self.port, least=0, most=65_535, wrong=wrong)
        if self.grpc_port is not None:
            check_whole("grpc_port", self.grpc_port, least=-1, most=65_535, wrong=wrong)
        check_whole("body_bytes", self.body_bytes, least=1_024, most=2**30, wrong=wrong)
        check_whole("burst", self.burst, least=1, most=10**6, wrong=wrong)
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

    def redaction(self) -> Redaction:
        """The rules of this server."""
        secrets = () if self.admin_token is None else (self.admin_token,)
        return Redaction(self.redact_fields, self.redact_patterns, secrets)

    @property
    def has_auth(self) -> bool:
        return self.admin_token is not None or self.has_tokens


def admin_token(environ: Mapping[str, str]) -> str | None:
    """The bootstrap token: HOLDFAST_ADMIN_TOKEN, or the content of the file HOLDFAST_ADMIN_TOKEN_FILE."""
    if text := environ.get(ADMIN_TOKEN):
        return check_bootstrap(text)
    path = environ.get(f"{ADMIN_TOKEN}_FILE")
    if not path:
        return None
    try:
        return check_bootstrap(Path(path).read_text("utf-8")[:SECRET_BYTES_MAX].strip())
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{ADMIN_TOKEN}_FILE cannot be read: {type(error).__name__}") from None


def server_settings(
    table: Mapping[str, object], environ: Mapping[str, str], flags: Mapping[str, object]
) -> ServerSettings:
    """The settings from the table [server] of holdfast.toml, then HOLDFAST_SERVER__KEY, then flags. The last
    that has a value wins; an unknown key is refused."""
    given: dict[str, object] = dict(table)
    for name, text in environ.items():
        if name.startswith(PREFIX):
            key = name.removeprefix(PREFIX).lower()
            given[key] = tuple(text.split(",")) if key in LISTS else text
    given |= {name: value for name, value in flags.items() if value is not None}
    known = set(ServerSettings.__struct_fields__) - {"admin_token", "has_tokens"}
    known |= {name for name in ("admin_token", "has_tokens") if name in flags}
    if unknown := sorted(given.keys() - known):
        raise BadConfig(
            f"[server] has no setting '{unknown[0]}': it has {', '.join(sorted(known))}"
        )
    try:
        return msgspec.convert(given, ServerSettings, strict=False)
    except msgspec.ValidationError as error:
        raise BadConfig(f"[server]: {error}") from None
