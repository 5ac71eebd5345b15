"""Outputs of many hosts, with equal ones once: "987 same, 13 differ".

Promises: each host is in exactly one group or missing; groups are sorted by their size, largest first, then
by the name of their first host. Outputs are equal when their SHA-256 is. Never: reads outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.core.check import check_whole
from holdfast.core.fleet.hosts.names import fold

GROUPS_MAX: Final = 1_000
"""Groups of one answer."""
GROUPS_SHOWN: Final = 20


class HostOutput(msgspec.Struct, frozen=True):
    """The output of one stream of one host."""

    host: str
    sha256: str | None = None
    """None: there is none yet, or it is not known whole."""
    bytes: int = 0


class OutputGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts with equal output."""

    sha256: str
    count: int
    hosts: str
    """Their names, folded."""
    first: str
    """One of them, whose output is the sample."""
    bytes: int
    sample: str = ""
    """The start of the output. The caller that reads it sets it."""


class FoldedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The outputs of a job."""

    groups: tuple[OutputGroup, ...]
    more_groups: int = 0
    """Groups that are not shown, because of the limit."""
    missing: str = ""
    """The hosts without output, folded."""
    missing_count: int = 0
    differing: int = 0
    """Hosts whose output is not that of the largest group."""


def fold_outputs(outputs: Iterable[HostOutput], limit: int = GROUPS_SHOWN) -> FoldedOutput:
    """The groups of equal outputs, at most `limit` of them. Of a host that is given twice the last output
    counts."""
    check_whole("limit", limit, least=1, most=GROUPS_MAX)
    by_host = {output.host: output for output in outputs}
    missing = [host for host, output in by_host.items() if output.sha256 is None]
    found: dict[str, list[HostOutput]] = {}
    for output in by_host.values():
        if output.sha256 is not None:
            found.setdefault(output.sha256, []).append(output)
    ordered = sorted(
        found.items(), key=lambda item: (-len(item[1]), min(each.host for each in item[1]))
    )
    groups = tuple(_group(sha256, members) for sha256, members in ordered[:limit])
    return FoldedOutput(
        groups=groups,
        more_groups=len(ordered) - len(groups),
        missing=fold(missing),
        missing_count=len(missing),
        differing=sum(len(members) for _, members in ordered[1:]),
    )


def _group(sha256: str, members: list[HostOutput]) -> OutputGroup:
    first = min(members, key=lambda each: each.host)
    return OutputGroup(
        sha256=sha256,
        count=len(members),
        hosts=fold(each.host for each in members),
        first=first.host,
        bytes=first.bytes,
    )
