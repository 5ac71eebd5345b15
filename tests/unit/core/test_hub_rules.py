"""The durations that a hub grants."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from holdfast.core.hub_rules import LEASE_SECONDS_MIN, HubRules
from holdfast.errors import BadConfig

wishes = st.none() | st.floats(0, 1e9)


@given(asked=wishes, before=wishes, most=st.floats(LEASE_SECONDS_MIN, 86_400))
def test_a_lease_is_within_its_bounds(
    asked: float | None, before: float | None, most: float
) -> None:
    rules = HubRules(lease_default_seconds=LEASE_SECONDS_MIN, lease_max_seconds=most)
    granted = rules.lease_seconds(asked, before)
    assert LEASE_SECONDS_MIN <= granted <= most
    wish = asked if asked is not None else before
    if wish is not None and LEASE_SECONDS_MIN <= wish <= most:
        assert granted == wish


def test_a_lease_without_a_wish_is_the_one_before_or_the_default() -> None:
    rules = HubRules(lease_default_seconds=40, lease_max_seconds=50)
    assert (rules.lease_seconds(None), rules.lease_seconds(None, 30)) == (40, 30)


def test_three_missed_heartbeats_are_silence() -> None:
    assert HubRules().silent_seconds == 60
    assert HubRules(heartbeat_seconds=5).silent_seconds == 15


def test_a_fence_is_asked_for_by_the_hub_or_promised_by_the_node() -> None:
    assert not HubRules().must_fence(["sync"])
    assert HubRules().must_fence(["sync", "fence"])
    assert HubRules(require_fence=True).must_fence([])


def test_a_default_above_the_bound_is_refused() -> None:
    with pytest.raises(BadConfig, match="more than lease_max_seconds"):
        HubRules(lease_default_seconds=100, lease_max_seconds=50)
