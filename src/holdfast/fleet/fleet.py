"""The use cases of the fleet, each built once on one store."""

from __future__ import annotations

from holdfast.core.fleet.rules import RULES, FleetRules
from holdfast.fleet.groups import Groups
from holdfast.fleet.host_details import HostReads
from holdfast.fleet.hosts import Hosts
from holdfast.store.store import Store


class Fleet:
    """What the faces of the fleet call."""

    def __init__(self, store: Store, rules: FleetRules = RULES) -> None:
        self.rules = rules
        self.hosts = Hosts(store)
        self.host_reads = HostReads(store)
        self.groups = Groups(store)
