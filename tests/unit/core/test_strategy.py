"""The strategies for content that was written on an old version."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from holdfast.core.exchange.conflict import judge
from holdfast.core.exchange.merge import Labels, LabelTag, Stamp, Stamped
from holdfast.core.exchange.push import Current
from holdfast.core.exchange.strategy import (
    CONTENT,
    Content,
    ContentChange,
    FieldClass,
    Strategies,
    Strategy,
    Unmerged,
    apply_change,
)
from holdfast.core.exchange.verdict import Action
from holdfast.core.task import Status
from tests.unit.core.push_support import pushed

F = FieldClass
VERSION = 5
OLD, NEW = Stamp(4, "m4"), Stamp(6, "m6")
SERVER = Content(
    '"server"',
    4,
    {"k": Stamped(OLD, "1"), "other": Stamped(OLD, "2")},
    Labels(frozenset({LabelTag("x", OLD)})),
)
PAYLOAD = ContentChange('"mine"')
KEY = ContentChange(metadata={"k": "9"})
REMOVAL = ContentChange(labels_removed=frozenset({"x"}))
choices = st.builds(
    Strategies,
    st.sampled_from(Strategy),
    st.dictionaries(st.sampled_from(sorted(CONTENT)), st.sampled_from(Strategy)),
)
changes = st.builds(
    ContentChange,
    st.none() | st.sampled_from(['"server"', '"mine"']),
    st.dictionaries(st.sampled_from(["k", "new"]), st.just("9")),
    st.frozensets(st.sampled_from(["x", "y"])),
    st.frozensets(st.sampled_from(["x", "y"])),
)


def applied(
    change: ContentChange, base: int, strategies: Strategies | Strategy
) -> Content | Unmerged:
    if isinstance(strategies, Strategy):
        strategies = Strategies(strategies)
    return apply_change(
        SERVER, change, version=VERSION, base_version=base, stamp=NEW, strategies=strategies
    )


def content(change: ContentChange, base: int, strategies: Strategies | Strategy) -> Content:
    after = applied(change, base, strategies)
    assert isinstance(after, Content)
    return after


def test_the_later_write_wins_whatever_its_base() -> None:
    wins = Strategy.LAST_WRITE_WINS
    assert content(PAYLOAD, 1, wins).payload_json == '"mine"'
    assert content(PAYLOAD, 1, wins).payload_version == NEW.version
    assert content(KEY, 1, wins).metadata["k"].value_json == "9"
    assert content(REMOVAL, 1, wins).labels.members == frozenset()


def test_a_merge_keeps_what_the_writer_had_not_read() -> None:
    merge = Strategy.MERGE
    assert content(KEY, 1, merge).metadata == {**SERVER.metadata, "k": Stamped(NEW, "9")}
    assert content(REMOVAL, 3, merge).labels.members == {"x"}
    assert content(REMOVAL, 4, merge).labels.members == frozenset()


def test_a_payload_merges_when_one_side_changed_it() -> None:
    merge = Strategy.MERGE
    assert content(PAYLOAD, 4, merge).payload_json == '"mine"', "the server has not changed it"
    assert applied(PAYLOAD, 3, merge) == Unmerged(frozenset({F.TEXT})), "both changed it"
    same = content(ContentChange('"server"'), 3, merge)
    assert (same.payload_json, same.payload_version) == ('"server"', 4), "both made one change"


def test_manual_applies_nothing_of_an_old_version_and_everything_of_the_current() -> None:
    change = ContentChange('"mine"', {"k": "9"}, labels_removed=frozenset({"x"}))
    assert applied(change, VERSION - 1, Strategy.MANUAL) == Unmerged(CONTENT)
    after = content(change, VERSION, Strategy.MANUAL)
    assert (after.payload_json, after.labels.members) == ('"mine"', frozenset())


def test_a_class_has_its_own_strategy() -> None:
    strategies = Strategies(Strategy.MANUAL, {F.MAP: Strategy.MERGE})
    assert content(KEY, 1, strategies).metadata["k"].value_json == "9"
    both = ContentChange('"mine"', {"k": "9"})
    assert applied(both, 1, strategies) == Unmerged(frozenset({F.TEXT})), "whole or not at all"


@pytest.mark.parametrize("field_class", sorted(set(FieldClass) - CONTENT))
def test_no_strategy_applies_to_status_or_observed_fields(field_class: FieldClass) -> None:
    with pytest.raises(ValueError, match=field_class.value):
        Strategies(overrides={field_class: Strategy.MERGE})


@given(changes, st.integers(1, VERSION), choices)
def test_the_table_accepts_exactly_what_can_be_applied(
    change: ContentChange, base: int, strategies: Strategies
) -> None:
    current = Current(
        Status.QUEUED,
        VERSION,
        payload_json=SERVER.payload_json,
        payload_version=SERVER.payload_version,
    )
    verdict = judge(pushed(None, base, change=change), current, strategies)
    after = applied(change, base, strategies)
    assert isinstance(after, Unmerged) == (verdict.action is Action.REFUSE)
    if isinstance(after, Content):
        assert after.metadata.keys() >= SERVER.metadata.keys()
        assert after.labels.members >= change.labels_added
        assert change.payload_json in (None, after.payload_json)
