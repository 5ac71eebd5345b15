"""Agents that run in a process of the store: of simulated hosts, and of those that Celery drives."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import codec
from holdfast.core.fleet.model import Host
from holdfast.fleet.agents.enrol import LOST_HEARTBEATS
from holdfast.fleet.rows import own
from holdfast.store.script import Script, call_rows
from holdfast.sync.nodes import scripts as node_scripts


def add_local_agents(hosts: Sequence[Host], heartbeat_seconds: float, now: float) -> Script[None]:
    """The nodes of these hosts, which have no credential. Existing nodes stay as they are."""
    info = codec.dumps(node_scripts.rhythm(heartbeat_seconds * LOST_HEARTBEATS))
    rows = sorted((host.id, host.project, codec.dumps({"host": host.name})) for host in hosts)
    yield call_rows(own("add_local_agents"), rows, info_json=info, now=now)
