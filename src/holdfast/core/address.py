"""Addresses of stores and servers: which backend a URL names, redaction for display, and validation.

Promises: no other module compares the scheme of a URL with text. Every address in a message, a log or on a
screen went through `shown_url`. When in doubt it hides too much: a password may contain any character,
including one that should have been escaped.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from holdfast.core.check import shown
from holdfast.errors import BadConfig

HIDDEN: Final = "***"
PORT_MAX: Final = 65_535
_WORDS: Final = r"(?:\w*pass(?:word|wd|file|phrase)?|pwd|\w*secret|\w*token|\w*key)"
_SECRET: Final = re.compile(rf"([?&;]{_WORDS}=)[^&]*", re.IGNORECASE)
_NEXT: Final = (
    r"(?=\s+(?:host|hostaddr|port|dbname|user|sslmode|application_name|connect_timeout)\s*=|\s*$)"
)
"""Matches before the next non-secret libpq keyword, or at the end."""
_KEYWORD: Final = re.compile(
    rf"((?:^|[\s,]){_WORDS}\s*=\s*)(?:'(?:\\.|[^'\\])*'{_NEXT}|'.*|(?:\\.|.)*?{_NEXT})",
    re.IGNORECASE | re.DOTALL,
)
"""A secret in a libpq connection string of keywords and values (`host=x password=y`)."""
_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*:/+)?(.*)", re.DOTALL)
_END: Final = re.compile(r"[/?#]")
_NEXT_GATEWAY: Final = re.compile(r",\s*(?=[a-z]+://)")


class Scheme(StrEnum):
    """The kind of backend that a URL names."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    REDIS = "redis"
    REDIS_SOCKET = "unix"
    MEMORY = "memory"
    GATEWAY = "gateway"


_PREFIXES: Final = {
    "sqlite:": Scheme.SQLITE,  # with any slashes: the message for a wrong number of them names SQLite
    "postgresql://": Scheme.POSTGRES,
    "postgres://": Scheme.POSTGRES,
    "redis://": Scheme.REDIS,
    "rediss://": Scheme.REDIS,
    "unix://": Scheme.REDIS_SOCKET,
    "memory:": Scheme.MEMORY,
    "holdfast://": Scheme.GATEWAY,
    "holdfasts://": Scheme.GATEWAY,
    "http://": Scheme.GATEWAY,
    "https://": Scheme.GATEWAY,
    "grpc://": Scheme.GATEWAY,
    "grpcs://": Scheme.GATEWAY,
}


def scheme_of(url: str) -> Scheme | None:
    """None for a URL that no backend knows."""
    return next((scheme for prefix, scheme in _PREFIXES.items() if url.startswith(prefix)), None)


def is_redis(url: str) -> bool:
    return scheme_of(url) in (Scheme.REDIS, Scheme.REDIS_SOCKET)


def is_gateway(url: str) -> bool:
    return scheme_of(url) is Scheme.GATEWAY


def after_scheme(url: str) -> str:
    """The URL from its first colon on: `///file.db` of `sqlite:///file.db`."""
    return url.partition(":")[2]


def memory_name(url: str) -> str | None:
    """NAME of `memory://NAME`, empty for `memory://`; None for any other URL."""
    if scheme_of(url) is not Scheme.MEMORY:
        return None
    return url.removeprefix("memory://")


def shown_url(url: str) -> str:
    """The address without its secrets. User, host, port and database stay. A list of gateways is shown one
    by one, unless a login is in it: its password may contain anything."""
    if "@" not in url and is_gateway(url):
        return ",".join(map(_shown, _NEXT_GATEWAY.split(url)))
    return _shown(url)


def _shown(url: str) -> str:
    match = _SCHEME.fullmatch(_SECRET.sub(rf"\1{HIDDEN}", url))
    assert match is not None
    scheme, rest = match[1] or "", match[2]
    plain = _KEYWORD.sub(rf"\1{HIDDEN}", rest)
    if plain != rest and not scheme:
        return plain
    login, at, host = plain.rpartition("@")
    if not at:
        return scheme + _without_wrong_port(plain)
    user, colon, _ = login.partition(":")
    if not colon and _END.search(login):
        user, colon = HIDDEN, ""
    return f"{scheme}{user}{f':{HIDDEN}' if colon else ''}@{host}"


def _without_wrong_port(rest: str) -> str:
    """Hides a port that is not a number: it may be a password whose host is missing."""
    if rest.startswith(("/", "[")):
        return rest
    host, colon, port = rest.partition(":")
    digits = _END.split(port, maxsplit=1)[0]
    if not colon or not digits or all(map(_is_port, re.split(r",[^:]*:", digits))):
        return rest
    return f"{host}:{HIDDEN}"


def check_address(url: object) -> str:
    """BadConfig unless the address is printable text. Later checks can then quote it."""
    if not isinstance(url, str):
        raise BadConfig(f"an address is text, not {shown(url)}: write e.g. sqlite:///file.db")
    if not url.isprintable():
        raise BadConfig(
            f"the address {shown(shown_url(url))} has control characters: escape them with %"
        )
    return url


def check_url(url: str) -> None:
    """BadConfig for a server address that a URL parser would split at the wrong place. The parser's own
    error would quote a part of the password, so this check runs first."""
    rest = url.partition("://")[2]
    end = _END.search(rest)
    login_and_host = rest[: end.start()] if end else rest
    path = rest[end.start() :].partition("?")[0] if end else ""
    hosts = login_and_host.rpartition("@")[2].split(",")
    if "#" in rest or "@" in path or not all(map(_is_host, hosts)):
        raise BadConfig(
            f"the address {shown_url(url)} cannot be read: write user:password@host:port/database, a port "
            f"from 1 to {PORT_MAX}, and in the password %2F for /, %23 for #, %3F for ?, %40 for @, "
            "%3A for :, %25 for %"
        )


def _is_host(host: str) -> bool:
    """Whether this is a host name or an IP address, with an optional numeric port."""
    if host.startswith("["):
        _, _, port = host.rpartition("]")
        return port in ("", ":") or (port[0] == ":" and _is_port(port[1:]))
    _, _, port = host.partition(":")
    return port == "" or _is_port(port)


def _is_port(text: str) -> bool:
    is_short_number = text.isascii() and text.isdigit() and len(text) <= len(str(PORT_MAX))
    return is_short_number and 1 <= int(text) <= PORT_MAX
