"""The use cases of the fleet, each built once on one store."""

from __future__ import annotations

import msgspec

from holdfast.bus.local import LocalBus
from holdfast.bus.port import Bus
from holdfast.core.fleet.rules import RULES, FleetRules
from holdfast.core.fleet.webhooks.address import AddressRules
from holdfast.core.fleet.webhooks.signature import TOLERANCE_SECONDS
from holdfast.fleet.blocks.blocks import Blocks
from holdfast.fleet.hosts.details import HostReads
from holdfast.fleet.hosts.groups import Groups
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.control import JobControl
from holdfast.fleet.jobs.create import Jobs
from holdfast.fleet.jobs.matrix import JobMatrix
from holdfast.fleet.jobs.outputs import JobOutputs
from holdfast.fleet.jobs.reads import JobReads
from holdfast.fleet.jobs.why import ExecutionReasons
from holdfast.fleet.retention import FleetRetention
from holdfast.fleet.secret_values import SecretValues
from holdfast.fleet.ssh.target import SshOptions
from holdfast.fleet.webhooks.webhooks import Webhooks
from holdfast.metrics import Meter
from holdfast.store.store import Store


class FleetParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say beside `FleetRules`, which is plain data."""

    secrets: SecretValues = msgspec.field(default_factory=SecretValues)
    addresses: AddressRules = msgspec.field(default_factory=AddressRules)
    """Where events may be sent."""
    tolerance_seconds: float = TOLERANCE_SECONDS
    """How far the time of a signed request may be from ours."""
    keep: FleetRetention = FleetRetention()
    ssh: SshOptions = SshOptions()
    """How hosts without an agent are reached."""


NO_PARTS = FleetParts()


class Fleet:
    """What the faces of the fleet call."""

    def __init__(
        self,
        store: Store,
        rules: FleetRules = RULES,
        parts: FleetParts = NO_PARTS,
        bus: Bus | None = None,
        meter: Meter | None = None,
    ) -> None:
        """`bus`: tells loops and agents of other processes about new work. Without it they look by
        themselves."""
        self.meter = meter
        hints = bus or LocalBus()
        self.rules = parts.secrets.rules(rules)
        self.parts = parts
        self.secrets = parts.secrets
        self.hosts = Hosts(store)
        self.host_reads = HostReads(store, self.rules)
        self.groups = Groups(store)
        self.blocks = Blocks(store)
        self.webhooks = Webhooks(
            store, parts.addresses, tolerance_seconds=parts.tolerance_seconds, meter=meter
        )
        self.jobs = Jobs(store, self.rules, hints)
        self.approvals = Approvals(store, self.rules, hints, meter=meter)
        self.job_control = JobControl(store, self.rules, hints)
        self.job_reads = JobReads(store, self.rules)
        self.job_outputs = JobOutputs(store)
        self.job_matrix = JobMatrix(store, self.rules)
        self.reasons = ExecutionReasons(store, self.rules)
