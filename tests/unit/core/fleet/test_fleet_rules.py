"""Values that follow from the settings of the fleet."""

from __future__ import annotations

import pytest

from holdfast.core.fleet.rules import NOTED_SECONDS, FleetRules


@pytest.mark.parametrize("heartbeat", [0.5, 1.0, 25.0])
def test_a_live_agent_is_not_silent_before_it_can_be_noted(heartbeat: float) -> None:
    rules = FleetRules(heartbeat_seconds=heartbeat)
    assert rules.silent_seconds >= 2 * heartbeat + NOTED_SECONDS
