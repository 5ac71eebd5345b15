"""Secrets of jobs: references instead of values, and their removal from output.

A job names a secret; the value is looked up when a run is offered, and passed to the command in a variable of
its environment. Promises: no struct here has the value of a secret, so a job, an approval and an event cannot
show one. Redacted output does not depend on how the stream was cut into chunks. Bytes that may be the start
of a secret are held back until the next chunk shows what they are: redact first, then cut.
Never: hides a value of less than `SECRET_BYTES_MIN` bytes, which would hide common text. Such a value is
refused where it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.core.check import check_whole, shown
from holdfast.core.token import HIDDEN
from holdfast.errors import InvalidInput

SECRETS_MAX: Final = 50
"""Secrets of one job."""
SECRET_BYTES_MIN: Final = 4
SECRET_BYTES_MAX: Final = 16_384
LINE_BYTES_MIN: Final = 8
"""Lines of a secret that are hidden by themselves, because programs print keys line by line."""
VERSION_MAX: Final = 2**53 - 1
SECRET_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")
_HIDDEN: Final = HIDDEN.encode()


class SecretRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret by its name. Without a version it is the newest one when the job is made."""

    name: str
    version: int | None = None


def check_ref(field: str, ref: SecretRef) -> SecretRef:
    if SECRET_NAME.fullmatch(ref.name) is None:
        raise InvalidInput(
            f"{field}.name {shown(ref.name)} is not a name of a secret: use letters, digits, _ . / and -"
        )
    if ref.version is not None:
        check_whole(f"{field}.version", ref.version, least=1, most=VERSION_MAX)
    return ref


def check_value(value: str) -> str:
    """A value that can be hidden in output, and passed in an environment."""
    size = len(value.encode("utf-8", "surrogatepass"))
    if not SECRET_BYTES_MIN <= size <= SECRET_BYTES_MAX or "\0" in value:
        raise InvalidInput(
            f"the value of a secret must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes and no NUL"
        )
    return value


def pinned(
    refs: Mapping[str, SecretRef], newest: Mapping[str, int]
) -> tuple[dict[str, SecretRef], list[str]]:
    """The references with their versions, and the names of secrets that do not exist."""
    missing = sorted({ref.name for ref in refs.values() if ref.name not in newest})
    found = {
        variable: SecretRef(ref.name, ref.version or newest[ref.name])
        for variable, ref in refs.items()
        if ref.name in newest
    }
    return found, missing


def versions(refs: Mapping[str, SecretRef]) -> dict[str, list[int]]:
    """The versions of each secret, as the digest of a job has them."""
    found: dict[str, set[int]] = {}
    for ref in refs.values():
        found.setdefault(ref.name, set()).add(ref.version or 0)
    return {name: sorted(numbers) for name, numbers in found.items()}


class StreamRedactor:
    """Removes secrets from one stream of output."""

    __slots__ = ("_buffer", "_firsts", "_longest", "_patterns", "_search")

    def __init__(self, values: Iterable[str]) -> None:
        self._patterns = _patterns(values)
        self._firsts = frozenset(pattern[0] for pattern in self._patterns)
        self._longest = max(map(len, self._patterns), default=0)
        self._search = re.compile(b"|".join(map(re.escape, self._patterns)))
        self._buffer = b""

    def feed(self, data: bytes) -> bytes:
        """The bytes that are certain now, without secrets."""
        if not self._patterns:
            return data
        buffer, taken, at = self._buffer + data, list[bytes](), 0
        while True:
            held = self._open(buffer, at)
            match = self._search.search(buffer, at)
            if match is None or match.start() >= held:
                break
            taken += [buffer[at : match.start()], _HIDDEN]
            at = match.end()
        taken.append(buffer[at:held])
        self._buffer = buffer[held:]
        return b"".join(taken)

    def flush(self) -> bytes:
        """The bytes that were held back, at the end of the stream."""
        rest, self._buffer = self._buffer, b""
        return self._search.sub(_HIDDEN, rest) if self._patterns else rest

    def _open(self, buffer: bytes, at: int) -> int:
        """Where the first secret may start that the buffer does not have whole."""
        for start in range(max(at, len(buffer) - self._longest + 1), len(buffer)):
            if buffer[start] in self._firsts:
                rest = buffer[start:]
                if any(len(each) > len(rest) and each.startswith(rest) for each in self._patterns):
                    return start
        return len(buffer)


def redacted(data: bytes, values: Iterable[str]) -> bytes:
    """The whole output without secrets."""
    patterns = _patterns(values)
    if not patterns:
        return data
    return re.sub(b"|".join(map(re.escape, patterns)), _HIDDEN, data)


def _patterns(values: Iterable[str]) -> list[bytes]:
    """The values and their longer lines, the longest first: where two start at one byte, it counts."""
    found: set[bytes] = set()
    for value in values:
        data = value.encode("utf-8", "surrogatepass")
        lines = [line.strip() for line in data.splitlines()]
        found |= {each for each in (data, data.strip()) if len(each) >= SECRET_BYTES_MIN}
        found |= {line for line in lines if len(line) >= LINE_BYTES_MIN}
    return sorted(found, key=lambda each: (-len(each), each))
