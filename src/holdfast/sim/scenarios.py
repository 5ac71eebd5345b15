"""Named scenarios: plans with some figures fixed.

Promises: a scenario sets figures of the plan only; the seed draws the rest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.errors import BadConfig


class Scenario(NamedTuple):
    """A description, and the figures it sets as (name, text)."""

    about: str
    changes: tuple[tuple[str, str], ...]


_NO_LOCKS: Final = (("holders", "0"), ("lock_servers", "0"))
_NO_ORDERS: Final = (("traders", ""),)
_NO_HUB: Final = (("gateways", "0"),)
SCENARIOS: Final = {
    "any": Scenario("everything, as the seed draws it", ()),
    "tasks": Scenario("workers and clients only", (*_NO_LOCKS, *_NO_ORDERS, *_NO_HUB)),
    "locks": Scenario(
        "locks, leases and bills paid once, beside few tasks",
        (*_NO_ORDERS, *_NO_HUB, ("clients", "1"), ("holders", "3"), ("lock_servers", "5")),
    ),
    "orders": Scenario(
        "traders with their order stores, beside few tasks",
        (*_NO_LOCKS, *_NO_HUB, ("clients", "1"), ("traders", "database,files")),
    ),
    "hub": Scenario(
        "gateways with remote workers, watchers, offline nodes and operators, beside few tasks",
        (
            *(*_NO_LOCKS, *_NO_ORDERS),
            *(("nodes", "1"), ("clients", "1"), ("gateways", "2"), ("remote_workers", "2")),
            *(("watchers", "2"), ("offline_nodes", "2"), ("operators", "2")),
        ),
    ),
    "fleet": Scenario(
        "a fleet of hosts with agents over a bad network, servers and operators, and no other tasks",
        (
            *(*_NO_LOCKS, *_NO_ORDERS, *_NO_HUB),
            *(("nodes", "1"), ("clients", "0"), ("agents", "30"), ("keep_seconds", "1e9")),
        ),
    ),
    "idle": Scenario(
        "five workers with nothing to do, heartbeats every ten seconds, no faults",
        (
            *(*_NO_LOCKS, *_NO_ORDERS, *_NO_HUB),
            *(("clients", "0"), ("nodes", "5"), ("lease_seconds", "30"), ("faults", "")),
            *(("schedules", "false"), ("request_seconds", "1e9")),
        ),
    ),
}


def changes_of(name: str) -> tuple[tuple[str, str], ...]:
    """The figures set by the scenario of this name."""
    if name not in SCENARIOS:
        raise BadConfig(f"there is no scenario '{name}': choose from {', '.join(SCENARIOS)}")
    return SCENARIOS[name].changes
