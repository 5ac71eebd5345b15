"""What a gateway remembers of the nodes that it hears."""

from __future__ import annotations

from holdfast.gateway.heard_nodes import NODES_MAX, HeardNodes


class Watch:
    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def test_a_node_that_was_not_heard_has_no_strip() -> None:
    heard_nodes = HeardNodes(Watch())
    assert heard_nodes.intervals("w1") is None
    assert heard_nodes.skew_seconds("w1") is None


def test_heartbeats_and_the_skew_of_a_clock_are_kept() -> None:
    watch = Watch()
    heard_nodes = HeardNodes(watch)
    for step in (0.0, 10.0, 12.5):
        watch.at += step
        heard_nodes.heard("w1", 10.0)
    heard_nodes.says_time("w1", watch.at - 0.25)
    assert heard_nodes.intervals("w1") == [10.0, 12.5]
    assert heard_nodes.skew_seconds("w1") == -0.25


def test_only_the_nodes_that_were_heard_last_are_remembered() -> None:
    heard_nodes = HeardNodes(Watch())
    for n in range(NODES_MAX):
        heard_nodes.heard(f"w{n}", 10.0)
        heard_nodes.says_time(f"w{n}", 1_000.0)
    heard_nodes.heard("w0", 10.0)
    heard_nodes.heard("one more", 10.0)
    assert heard_nodes.intervals("w0") is not None
    assert heard_nodes.intervals("w1") is None
    heard_nodes.says_time("one more", 1_000.0)
    assert heard_nodes.skew_seconds("w0") is None
