"""Routes as data, and how a path finds its route.

Promises: a path is split before its parts are decoded, so an id may hold any character, a slash as %2F
included. A path that exists with other methods gets another answer than one that does not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from holdfast.gateway.operations.call import Answer

PATH_CHARS_MAX: Final = 4_000


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call without parameters."""


class Searched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a short list. `q` as in `rest/searching.py`."""

    q: str = ""


class Paged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a list."""

    after: str | None = None
    limit: int = 100


class PagedSearch(Paged, frozen=True, forbid_unknown_fields=True):
    """Parameters of a list that is searched by `rest/searching.py`."""

    q: str = ""


class Waited(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a read that may wait for an end."""

    wait_seconds: float = 0.0


class Route(NamedTuple):
    """One call of the API. `handler(call, *path values, **parameters, body=...)`."""

    method: str
    path: str
    """Segments in braces are path values: `/tasks/{task_id}/why`."""
    handler: Callable[..., Awaitable[Answer]]
    summary: str
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    """The type of the body. None: the call takes no body."""
    decoded: Any = None
    """The type that is decoded, if parts of the body are read later. None: that of the body."""
    operation: str = ""
    """The operation that the call needs. '' for any principal."""
    status: int = 200
    is_list: bool = False
    """Whether the answer has `items` and `next`, so that it can be streamed."""
    is_entry: bool = False
    """Whether the call makes a credential, so that it is bounded by address."""
    body_bytes: int | None = None
    """The bound of the body. None: that of the settings."""
    is_signed: bool = False
    """Whether a signature of a webhook source counts in place of a token. A path value names the source."""

    items: type[msgspec.Struct] | None = None
    """The objects of a list that is searched by `rest/searching.py`. Its parameters have `q`."""
    own_keys: tuple[str, ...] = ()
    """Keys of `q` that the operation reads itself."""
    text_key: str = ""
    """The field that a bare word is the beginning of. A `q` without any key is text, which the operation
    looks for in this field."""

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))


class Match(NamedTuple):
    route: Route
    values: tuple[str, ...]


class Routes:
    """Finds the route of a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = tuple(routes)
        self._fixed = {
            (route.method, route.path): Match(route, ())
            for route in self.all
            if "{" not in route.path
        }
        self._by_length: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        for route in self.all:
            self._by_length.setdefault(len(route.segments), []).append((route.segments, route))
        for candidates in self._by_length.values():
            # A fixed segment goes before a path value.
            candidates.sort(key=lambda each: [part.startswith("{") for part in each[0]])

    def find(self, method: str, path: str) -> Match | list[str]:
        """The route and its path values; else the methods that the path has, none if it does not exist."""
        if (fixed := self._fixed.get((method, path))) is not None:
            return fixed
        if len(path) > PATH_CHARS_MAX:
            return []
        parts = tuple(unquote(part) for part in path.removeprefix("/").split("/"))
        methods = []
        for segments, route in self._by_length.get(len(parts), ()):
            if not _fits(segments, parts):
                continue
            if route.method == method:
                values = [p for s, p in zip(segments, parts, strict=True) if s.startswith("{")]
                return Match(route, tuple(values))
            methods.append(route.method)
        return methods


def _fits(segments: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return all(
        part != "" if segment.startswith("{") else part == segment
        for segment, part in zip(segments, parts, strict=True)
    )
