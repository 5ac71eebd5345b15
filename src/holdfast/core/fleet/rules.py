"""What the settings say about the fleet, as plain data. The server builds it from `[fleet]`.

Promises: every value has a default that is safe: without a rule that matches, a job needs an approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.fleet.approvals.rules import REQUIRED, ApprovalRule
from holdfast.core.fleet.commands.command_type import SHIPPED, CommandType
from holdfast.core.fleet.commands.secrets import SecretRef, SecretScope, out_of_scope
from holdfast.core.fleet.model import HostDriver


class FleetHosting(StrEnum):
    """Where the steps of jobs run."""

    ENGINE = "engine"
    """In the loops of the server."""
    CELERY = "celery"
    """In workers of Celery."""


NOTED_SECONDS: Final = 5.0
"""How often the times at which idle agents were heard are written."""


class FleetRules(msgspec.Struct, frozen=True, kw_only=True):
    """The values of `[fleet]`."""

    command_types: dict[str, CommandType] = msgspec.field(default_factory=lambda: dict(SHIPPED))
    """By name: the shipped types and those of the settings (`command_type.command_types`)."""
    approval_rules: tuple[ApprovalRule, ...] = ()
    """In order: the first that matches a job counts."""
    secret_versions: dict[str, int] = {}
    """The newest version of each secret that the server has, by name."""
    secret_scopes: dict[str, SecretScope] = {}
    """Which jobs may name a secret, by the name of the secret. One that is not here is for all jobs."""

    hosting: FleetHosting = FleetHosting.ENGINE
    max_in_flight: int = 50
    not_after_seconds: float = 3_600.0
    exec_timeout_seconds: float = 60.0
    grace_seconds: float = 10.0
    exec_max_retries: int = 3
    base_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 60.0
    lease_seconds: float = 60.0
    lost_after_seconds: float = 900.0
    outage_grace_seconds: float = 300.0
    accept_within_seconds: float = 10.0
    heartbeat_seconds: float = 25.0
    approval_default: str = REQUIRED
    approval_expires_seconds: float = 3_600.0
    break_glass_max_hosts: int = 20
    stale_blocks: str = "strict"
    """What an agent does whose list of blocks is older than five minutes: `strict` or `best_effort`."""
    outbox_seconds: float = 1.0
    """How often the outbox is read without a hint (the beat interval)."""
    plan_batch: int = 500
    """Executions that one transaction of the planner admits."""

    @property
    def silent_seconds(self) -> float:
        """An agent that was not heard for this long is not live: its host counts as not reachable."""
        return 2.5 * self.heartbeat_seconds + NOTED_SECONDS

    def look(self, now: float) -> dict[str, float | str]:
        """What conditions about hosts take (`store.conditions`): since when an agent has to be heard, and the
        drivers of hosts that a process of ours reaches, which need no agent."""
        pushed = " ".join(driver.value for driver in HostDriver if self.is_pushed(driver))
        return {"since": now - self.silent_seconds, "pushed": pushed}

    def secret_refusal(
        self, refs: Mapping[str, SecretRef], project: str, command_type: str
    ) -> str | None:
        """Why a job may not have the secrets that it names. None: it may."""
        return out_of_scope(refs, self.secret_scopes, project, command_type)

    def is_pushed(self, driver: HostDriver) -> bool:
        """Whether a process of ours brings executions to such a host. Other hosts fetch them."""
        if driver is HostDriver.SIMULATED:
            return self.hosting is FleetHosting.CELERY
        return driver is HostDriver.SSH


RULES: Final = FleetRules()
