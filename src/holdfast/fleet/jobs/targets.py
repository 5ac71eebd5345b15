"""The targets of a new job: which hosts its request names, and which of them are left out.

Promises: resolved in the transaction of the job, and never again. A request that names hosts reads only
those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.errors import EmptySelection
from holdfast.core.fleet.hosts.selector import no_match, pick
from holdfast.core.fleet.hosts.selector_parse import parse
from holdfast.core.fleet.model import Host, HostState
from holdfast.fleet.hosts import groups, scripts as host_scripts
from holdfast.store.script import Script


class Targets(NamedTuple):
    """The hosts of a job, by name."""

    hosts: list[Host]
    excluded: list[tuple[Host, str]]
    """Hosts that were selected and get nothing, with the reason."""


def resolve(
    project: str, names: Sequence[str] | None, selector: str | None, *, whole: bool
) -> Script[Targets]:
    """The hosts of names or ids, or those that a selector selects. `whole`: rules of approvals or blocks ask
    for facts, whatever the request selects by. UnknownHost, EmptySelection."""
    if names is not None:
        found = yield from host_scripts.find(project, names)
        hosts = pick(names, list({host.id: host for host in found.hosts.values()}.values()))
    else:
        hosts = yield from groups.select(project, selector or "", whole=whole)
        if not hosts:
            known = yield from host_scripts.inventory(project, with_facts=False)
            raise no_match(parse(selector or ""), known)
    active = [host for host in hosts if host.state is HostState.ACTIVE]
    cordoned = [(host, "cordoned") for host in hosts if host.state is HostState.CORDONED]
    if not active:
        raise EmptySelection("all hosts of the selection are cordoned: the job would do nothing")
    return Targets(active, cordoned)
