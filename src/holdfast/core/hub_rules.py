"""The durations that a hub gives to the nodes of its store, and what it asks of them.

Promises: a lease that is granted lies between `LEASE_SECONDS_MIN` and `lease_max_seconds`. A node counts as
silent after three intervals of its heartbeat. Never: reads settings; a gateway makes the rules from its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from holdfast.core.check import check_number
from holdfast.core.intervention import FALLBACK_SECONDS
from holdfast.core.node_identity import HEARTBEAT_SECONDS
from holdfast.errors import BadConfig

LEASE_SECONDS_MIN: Final = 5.0
LEASE_SECONDS_MAX: Final = 3_600.0
LEASE_SECONDS: Final = 300.0
DAY_SECONDS: Final = 86_400.0


class HubRules(msgspec.Struct, frozen=True, kw_only=True):
    """See `[sync]` in docs/reference/server.md."""

    lease_default_seconds: float = LEASE_SECONDS
    """The lease of a claim that asks for none."""
    lease_max_seconds: float = LEASE_SECONDS_MAX
    """The longest lease that a node or a worker gets."""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    """How often a registered node says that it lives."""
    require_fence: bool = False
    """Every node has to send the fence of its runs, not only one with the capability `fence`."""
    reassign_fallback_seconds: float = FALLBACK_SECONDS
    """How long a task waits for the node that it was reassigned to, unless the request says it. 0: for
    ever."""

    progress_timeout_seconds: float | None = None
    """How long a run of a task that a node has made may go without progress. None: for ever."""

    def __post_init__(self) -> None:
        least, most = LEASE_SECONDS_MIN, DAY_SECONDS
        for name, value, low in (
            ("lease_max_seconds", self.lease_max_seconds, least),
            ("lease_default_seconds", self.lease_default_seconds, least),
            ("heartbeat_seconds", self.heartbeat_seconds, 1.0),
            ("reassign_fallback_seconds", self.reassign_fallback_seconds, 0.0),
        ):
            check_number(name, value, least=low, most=most, wrong=BadConfig)
        if self.lease_default_seconds > self.lease_max_seconds:
            raise BadConfig(
                f"lease_default_seconds is {self.lease_default_seconds:g}, more than lease_max_seconds "
                f"({self.lease_max_seconds:g}): lower it, or raise lease_max_seconds"
            )

    @property
    def silent_seconds(self) -> float:
        """How long a node is silent before it counts as gone."""
        return 3 * self.heartbeat_seconds

    def lease_seconds(self, asked: float | None, before: float | None = None) -> float:
        """The lease that is granted. `before`: the one that the run has."""
        wish = asked if asked is not None else before
        if wish is None:
            wish = self.lease_default_seconds
        return min(max(wish, LEASE_SECONDS_MIN), self.lease_max_seconds)

    def must_fence(self, capabilities: Collection[str]) -> bool:
        """Whether a node with these capabilities has to send the fence of its runs."""
        return self.require_fence or "fence" in capabilities


RULES: Final = HubRules()
"""The rules of a hub without settings."""
