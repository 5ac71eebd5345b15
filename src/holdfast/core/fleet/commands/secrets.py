"""Secrets of jobs: references instead of values, and their removal from output.

A job names a secret; the value is looked up when a run is offered, and passed to the command in a variable of
its environment. Promises: no struct here has the value of a secret, so a job, an approval and an event cannot
show one. Each byte of an occurrence of a secret becomes a star, so offsets and sizes of output stay; the
length of a secret can be seen. Redacted output does not depend on how it was cut: a part of an output is
redacted with the bytes around it, and one that may go on ends before what may be the start of a secret.
A secret with a scope is for the jobs that the scope names, and for no other.
Never: hides a value of less than `SECRET_BYTES_MIN` bytes, which would hide common text. Such a value is
refused where it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.check import check_whole, shown
from holdfast.errors import InvalidInput

SECRETS_MAX: Final = 50
"""Secrets of one job."""
SECRET_BYTES_MIN: Final = 4
SECRET_BYTES_MAX: Final = 16_384
LINE_BYTES_MIN: Final = 8
"""Lines of a secret that are hidden by themselves, because programs print keys line by line."""
VERSION_MAX: Final = 2**53 - 1
SECRET_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")
STAR: Final = b"*"


class SecretRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A secret by its name. Without a version it is the newest one when the job is made."""

    name: str
    version: int | None = None


class SecretScope(msgspec.Struct, frozen=True):
    """Which jobs may name a secret. None: those of every project, or of every command type."""

    projects: tuple[str, ...] | None = None
    command_types: tuple[str, ...] | None = None

    def refusal(self, name: str, project: str, command_type: str) -> str | None:
        """Why a job may not have the secret. None: it may. Other projects and types are not named."""
        if self.projects is not None and project not in self.projects:
            return f"secret '{name}' is not for jobs of the project '{project}' (see its scope)"
        if self.command_types is not None and command_type not in self.command_types:
            return (
                f"secret '{name}' is not for commands of the type '{command_type}' (see its scope)"
            )
        return None


def out_of_scope(
    refs: Mapping[str, SecretRef],
    scopes: Mapping[str, SecretScope],
    project: str,
    command_type: str,
) -> str | None:
    """Why a job may not have its secrets. None: it may have them all."""
    for name in sorted({ref.name for ref in refs.values()} & scopes.keys()):
        refusal = scopes[name].refusal(name, project, command_type)
        if refusal is not None:
            return refusal
    return None


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


def redacted(
    data: bytes,
    values: Iterable[str],
    *,
    before: bytes = b"",
    after: bytes = b"",
    is_cut_before: bool = False,
    is_cut_after: bool = False,
) -> bytes:
    """A part of an output without secrets. `before` and `after`: the bytes around it, at least `context` of
    them where there are any. `is_cut_before`, `is_cut_after`: what came beyond these is missing, so a part of
    a secret at that edge is hidden too."""
    patterns, whole = _patterns(values), before + data + after
    starred = _starred(whole, patterns)
    if is_cut_after:
        end = _open(whole, patterns)
        starred = starred[:end] + STAR * (len(whole) - end)
    if is_cut_before:
        start = _closed(whole, patterns)
        starred = STAR * start + starred[start:]
    return starred[len(before) : len(before) + len(data)]


def settled(
    data: bytes, values: Iterable[str], *, before: bytes = b"", after: bytes = b""
) -> bytes:
    """A part of an output that may go on behind `after`: without secrets, and without its end from where a
    secret may start that is not there whole."""
    patterns, whole = _patterns(values), before + data + after
    end = min(len(before) + len(data), _open(whole, patterns))
    return _starred(whole, patterns)[len(before) : max(len(before), end)]


def context(values: Iterable[str]) -> int:
    """The number of bytes around a part that decide about the part."""
    return max((len(pattern) - 1 for pattern in _patterns(values)), default=0)


def _open(buffer: bytes, patterns: Sequence[bytes]) -> int:
    """Where the first secret may start that the buffer does not have whole."""
    longest = max(map(len, patterns), default=0)
    firsts = frozenset(pattern[0] for pattern in patterns)
    for start in range(max(0, len(buffer) - longest + 1), len(buffer)):
        if buffer[start] in firsts:
            rest = buffer[start:]
            if any(len(each) > len(rest) and each.startswith(rest) for each in patterns):
                return start
    return len(buffer)


def _closed(buffer: bytes, patterns: Sequence[bytes]) -> int:
    """Where the last secret may end that began before the buffer."""
    longest = max(map(len, patterns), default=0)
    for end in range(min(len(buffer), longest - 1), 0, -1):
        part = buffer[:end]
        if any(len(each) > end and each.endswith(part) for each in patterns):
            return end
    return 0


def _starred(data: bytes, patterns: Sequence[bytes]) -> bytes:
    """The data with a star for every byte of every occurrence, also of those that overlap."""
    hidden: bytearray | None = None
    for pattern in patterns:
        at, period = data.find(pattern), 0
        while at >= 0:
            hidden = bytearray(data) if hidden is None else hidden
            period = period or _period(pattern)
            end = at + len(pattern)
            # Occurrences that follow as near as can be: the cost of a repetitive secret in repetitive output
            # is that of one pass.
            while data.startswith(pattern[-period:], end):
                end += period
            hidden[at:end] = STAR * (end - at)
            at = data.find(pattern, end - len(pattern) + 1)
    return data if hidden is None else bytes(hidden)


def _period(pattern: bytes) -> int:
    """The least distance of two occurrences that overlap; the length if none can."""
    borders = [0]
    for byte in pattern[1:]:
        size = borders[-1]
        while size and pattern[size] != byte:
            size = borders[size - 1]
        borders.append(size + 1 if pattern[size] == byte else 0)
    return len(pattern) - borders[-1]


def _patterns(values: Iterable[str]) -> list[bytes]:
    """The values and their longer lines."""
    found: set[bytes] = set()
    for value in values:
        data = value.encode("utf-8", "surrogatepass")
        lines = [line.strip() for line in data.splitlines()]
        found |= {each for each in (data, data.strip()) if len(each) >= SECRET_BYTES_MIN}
        found |= {line for line in lines if len(line) >= LINE_BYTES_MIN}
    return sorted(found)
