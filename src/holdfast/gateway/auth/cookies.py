"""Sessions of browsers: a token in a cookie that no script reads and no other site sends.

Promises: the cookie counts only for requests that a page of this server makes itself (`Sec-Fetch-Site`, else
`Origin`). A header `Authorization` goes before it. A login code counts once, within ten minutes, on this
machine. A session is a token of the store: it is listed, expires, and ends when it is revoked.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from holdfast.core.ids import Ids
from holdfast.core.token import token_digest

COOKIE: Final = "holdfast_session"
SESSION_SECONDS: Final = 12 * 3_600.0
"""How long a session lasts that a login code or the administrator's token has opened."""
CODE_SECONDS: Final = 600.0
CODES_MAX: Final = 100
MADE: Final = "s."
"""Begins the cookie of a session that has a token for itself, which a logout revokes."""
GIVEN: Final = "t."
"""Begins the cookie of a session with a token that the person gave: a logout forgets it."""
SAFE: Final = frozenset({"GET", "HEAD"})


def cookie_name(host: str | None) -> str:
    """The name of the cookie of a server. A browser gives the cookies of one machine to all its ports, so the
    port is in the name: the sessions of two servers stay apart."""
    port = (host or "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdigit() else COOKIE


class Session(NamedTuple):
    """What a cookie carries."""

    secret: str
    is_made: bool

    @property
    def value(self) -> str:
        return f"{MADE if self.is_made else GIVEN}{self.secret}"


def session_of(headers: Mapping[str, str]) -> Session | None:
    """The session of a request. None if it has none."""
    try:
        cookies = SimpleCookie(headers.get("cookie") or "")
    except CookieError:
        return None
    morsel = cookies.get(cookie_name(headers.get("host")))
    if morsel is None or not morsel.value.startswith((MADE, GIVEN)):
        return None
    return Session(morsel.value[len(MADE) :], morsel.value.startswith(MADE))


def is_own_page(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a page of this server sends the request, by what the browser says about it. A browser that says
    nothing may read; SameSite=Strict keeps the cookie from other sites there too."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return False
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    return origin is not None or method in SAFE


def authorization_of(method: str, headers: Mapping[str, str]) -> str | None:
    """The header `Authorization` of a request, or the one that its session stands for."""
    given = headers.get("authorization")
    if given is not None:
        return given
    session = session_of(headers)
    if session is None or not is_own_page(method, headers):
        return None
    return f"Bearer {session.secret}"


class LoginCode(NamedTuple):
    """What a login code opens, and until when it counts."""

    until: float
    given: Session | None
    """None: a session of the administrator, which is made when the code is used."""


class LoginCodes:
    """The login codes of one gateway, by their digest, in memory."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._codes: dict[str, LoginCode] = {}

    def open(self, now: float, given: Session | None = None) -> str:
        """A new code, for the administrator or for a session of a token. The oldest is forgotten if there are
        too many."""
        code = self._ids.secret()
        self._codes[token_digest(code)] = LoginCode(now + CODE_SECONDS, given)
        while len(self._codes) > CODES_MAX:
            del self._codes[next(iter(self._codes))]
        return code

    def take(self, code: str, now: float) -> LoginCode | None:
        """What the code opens; None if it does not count. It counts no more."""
        found = self._codes.pop(token_digest(code), None)
        return found if found is not None and found.until > now else None
