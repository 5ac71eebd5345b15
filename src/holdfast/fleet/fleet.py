"""The use cases of the fleet, each built once on one store."""

from __future__ import annotations

import msgspec

from holdfast.core.fleet.rules import RULES, FleetRules
from holdfast.core.fleet.signature import TOLERANCE_SECONDS
from holdfast.core.fleet.webhook_address import AddressRules
from holdfast.fleet.blocks import Blocks
from holdfast.fleet.groups import Groups
from holdfast.fleet.host_details import HostReads
from holdfast.fleet.hosts import Hosts
from holdfast.fleet.retention import FleetRetention
from holdfast.fleet.secret_values import SecretValues
from holdfast.fleet.webhooks import Webhooks
from holdfast.store.store import Store


class FleetParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say beside `FleetRules`, which is plain data."""

    secrets: SecretValues = msgspec.field(default_factory=SecretValues)
    addresses: AddressRules = msgspec.field(default_factory=AddressRules)
    """Where events may be sent."""
    tolerance_seconds: float = TOLERANCE_SECONDS
    """How far the time of a signed request may be from ours."""
    keep: FleetRetention = FleetRetention()


NO_PARTS = FleetParts()


class Fleet:
    """What the faces of the fleet call."""

    def __init__(
        self, store: Store, rules: FleetRules = RULES, parts: FleetParts = NO_PARTS
    ) -> None:
        self.rules = rules
        self.parts = parts
        self.secrets = parts.secrets
        self.hosts = Hosts(store)
        self.host_reads = HostReads(store)
        self.groups = Groups(store)
        self.blocks = Blocks(store)
        self.webhooks = Webhooks(store, parts.addresses, tolerance_seconds=parts.tolerance_seconds)
