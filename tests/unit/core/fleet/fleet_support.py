"""Hosts for the tests of the rules of the fleet."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core import codec
from holdfast.core.fleet.model import Host, HostDriver, HostState


def host(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    facts: Mapping[str, object] | None = None,
    driver: HostDriver = HostDriver.AGENT,
    state: HostState = HostState.ACTIVE,
) -> Host:
    """A host whose id is `hst_` and its name."""
    return Host(
        id=f"hst_{name}",
        project="default",
        name=name,
        driver=driver,
        labels_json=codec.dumps(dict(labels or {})),
        facts_json=codec.dumps(dict(facts or {})),
        state=state,
        created_at=0.0,
        updated_at=0.0,
    )
