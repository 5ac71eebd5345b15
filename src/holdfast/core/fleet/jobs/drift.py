"""Drift: how the hosts that a job would select now differ from those that it was made for.

Promises: drift is shown, never followed. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.core.fleet.model import Host, HostState

NAMED_MAX: Final = 100
"""Hosts that are named in each list."""


class PinnedHost(msgspec.Struct, frozen=True):
    """A target of a job, as it was when the job was made."""

    id: str
    name: str
    labels: dict[str, str] | None = None
    """None: they were not recorded."""


class HostDrift(msgspec.Struct, frozen=True, kw_only=True):
    """Names of hosts, sorted. The lists are cut; the numbers are whole."""

    new: tuple[str, ...] = ()
    """The selector has them now; the job does not run on them."""
    gone: tuple[str, ...] = ()
    """The job runs on them; they were removed."""
    changed: tuple[str, ...] = ()
    """Their name or labels are not what they were, or the selector does not have them any more."""
    new_count: int = 0
    gone_count: int = 0
    changed_count: int = 0


def drift(
    pinned: Iterable[PinnedHost], known: Mapping[str, Host], selected: Iterable[str] | None
) -> HostDrift:
    """What has changed since the job was made. `known` are the hosts of the project by id; `selected` are the
    ids that the job's selector has now (None: the job named its hosts)."""
    targets = {host.id: host for host in pinned}
    now_selected = None if selected is None else set(selected)
    gone, changed = [], []
    for host_id, was in targets.items():
        host = known.get(host_id)
        if host is None or host.state is HostState.GONE:
            gone.append(was.name)
        elif _is_changed(was, host) or (now_selected is not None and host_id not in now_selected):
            changed.append(host.name)
    new = [known[i].name for i in (now_selected or ()) if i in known and i not in targets]
    return HostDrift(
        new=_named(new),
        gone=_named(gone),
        changed=_named(changed),
        new_count=len(new),
        gone_count=len(gone),
        changed_count=len(changed),
    )


def _is_changed(was: PinnedHost, host: Host) -> bool:
    return was.name != host.name or was.labels not in (None, host.labels)


def _named(names: list[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:NAMED_MAX])
