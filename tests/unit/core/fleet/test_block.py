"""Blocks: what they match, when they count, and what follows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.blocks.block import (
    Held,
    LiftAction,
    Refused,
    after_lift,
    block_text,
    by_host,
    check_block,
    ends_at,
    explain,
    is_in_force,
    matches,
    matches_host,
    next_change,
    verdict,
)
from holdfast.core.fleet.hosts.selector_parse import parse
from holdfast.core.fleet.jobs.drift import NAMED_MAX, PinnedHost, drift
from holdfast.core.fleet.model import (
    Block,
    BlockEffect,
    Host,
    HostDriver,
    HostState,
    OnLift,
)
from holdfast.errors import InvalidInput

NOW = 1_800_000_000.0
NIGHTS = '{"rrule":"FREQ=DAILY;BYHOUR=1","duration_seconds":3600,"timezone":"UTC"}'


def host(name: str = "web-1", **changes: Any) -> Host:
    labels = changes.pop("labels", {"env": "prod"})
    return Host(
        id=f"hst_{name}",
        project="default",
        name=name,
        driver=HostDriver.AGENT,
        labels_json=msgspec.json.encode(labels).decode(),
        created_at=NOW,
        updated_at=NOW,
        **changes,
    )


def block(block_id: str = "blk_1", **changes: Any) -> Block:
    values: dict[str, Any] = {
        "host_id": None if "selector" in changes else "hst_web-1",
        "command_type": "*",
        "reason": "disk swap",
        "owner": "user:ann",
        "created_at": NOW,
    }
    return Block(id=block_id, project="default", **(values | changes))


blocks = st.lists(
    st.builds(
        block,
        st.sampled_from(["blk_1", "blk_2", "blk_3", "blk_4"]),
        selector=st.sampled_from(["*", "env=prod", "env=lab", "web-1", "@gone"]),
        command_type=st.sampled_from(["*", "exec", "re*"]),
        effect=st.sampled_from(BlockEffect),
        window_json=st.sampled_from([None, NIGHTS]),
        expires_at=st.sampled_from([None, NOW - 1, NOW + 1, NOW + 40_000]),
        lifted_at=st.sampled_from([None, None, NOW - 1]),
    ),
    max_size=5,
    unique_by=lambda found: found.id,
)
times = st.floats(NOW, NOW + 200_000)


@pytest.mark.parametrize(
    ("found", "command_type", "is_match"),
    [
        (block(), "exec", True),
        (block(host_id="hst_web-2"), "exec", False),
        (block(command_type="exec"), "exec", True),
        (block(command_type="ex*"), "exec", True),
        (block(command_type="shell"), "exec", False),
        (block(selector="env=prod"), "exec", True),
        (block(selector="env=lab"), "exec", False),
        (block(selector="web-[1-3]"), "exec", True),
        (block(selector="@front"), "exec", True),
        (block(selector="@back"), "exec", False),
        (block(selector="@no-such-group"), "exec", True),
    ],
)
def test_what_a_block_matches(found: Block, command_type: str, is_match: bool) -> None:
    groups = {"front": parse("web-[1-9]"), "back": parse("name~db-*")}
    assert matches(found, host(), command_type, groups) is is_match


@given(blocks, times)
def test_a_refusal_wins_and_the_verdict_is_in_force(found: list[Block], now: float) -> None:
    judged = verdict(found, host(), "exec", now)
    counting = [b for b in found if is_in_force(b, now) and matches(b, host(), "exec")]
    assert (judged is None) == (not counting)
    if judged is None:
        return
    assert judged.block in counting
    refuses = any(b.effect is BlockEffect.REFUSE for b in counting)
    assert isinstance(judged, Refused if refuses else Held)
    assert judged.until is None or judged.until > now
    assert judged == verdict(found[::-1], host(), "exec", now)


@given(blocks, times)
def test_nothing_changes_before_the_next_change(found: list[Block], now: float) -> None:
    at = next_change(found, now)
    assert at is None or at > now
    until = now + 100_000 if at is None else at
    before = [is_in_force(b, now) for b in found]
    for part in (0.3, 0.9):
        assert [is_in_force(b, now + (until - now) * part) for b in found] == before
    if at is not None:
        assert [is_in_force(b, at) for b in found] != before


@given(blocks, times)
def test_a_verdict_holds_until_its_end(found: list[Block], now: float) -> None:
    judged = verdict(found, host(), "exec", now)
    if judged is not None and judged.until is not None:
        assert is_in_force(judged.block, (now + judged.until) / 2)
        assert not is_in_force(judged.block, judged.until)


def test_of_several_blocks_the_one_that_ends_last_is_named() -> None:
    found = [
        block("blk_1", effect=BlockEffect.HOLD, expires_at=NOW + 10),
        block("blk_2", effect=BlockEffect.HOLD),
        block("blk_3", effect=BlockEffect.HOLD, expires_at=NOW + 99),
    ]
    judged = verdict(found, host(), "exec", NOW)
    assert judged == Held(found[1], None)
    assert verdict([found[0], found[2]], host(), "exec", NOW) == Held(found[2], NOW + 99)


@pytest.mark.parametrize(
    ("on_lift", "others", "now", "action"),
    [
        (OnLift.REQUEUE, None, NOW, LiftAction.REQUEUE),
        (OnLift.REQUEUE, None, NOW + 60, LiftAction.EXPIRE),
        (OnLift.REQUEUE, Held(block("blk_2")), NOW, LiftAction.HOLD),
        (OnLift.REQUEUE, Refused(block("blk_2")), NOW, LiftAction.REFUSE),
        (OnLift.REAPPROVE, None, NOW, LiftAction.REAPPROVE),
        (OnLift.REAPPROVE, None, NOW + 60, LiftAction.EXPIRE),
        (OnLift.DROP, None, NOW, LiftAction.DROP),
        (OnLift.DROP, Held(block("blk_2")), NOW + 60, LiftAction.DROP),
    ],
)
def test_what_becomes_of_a_held_execution(
    on_lift: OnLift, others: Refused | Held | None, now: float, action: LiftAction
) -> None:
    found = after_lift(block(on_lift=on_lift), others=others, not_after=NOW + 60, now=now)
    assert found is action


def test_the_text_names_the_block_its_owner_and_its_end() -> None:
    assert block_text(block(), NOW) == ("block blk_1 of user:ann: disk swap, until it is lifted")
    assert block_text(block(expires_at=NOW + 60), NOW).endswith("until 2027-01-15T08:01:00.000Z")
    assert ends_at(block(expires_at=NOW + 60), NOW) == NOW + 60


def test_why_names_every_block_about_the_host() -> None:
    found = [
        block("blk_3", command_type="shell"),
        block("blk_2", selector="*", window_json=NIGHTS),
        block("blk_1", selector="env=prod", effect=BlockEffect.HOLD),
        block("blk_0", lifted_at=NOW - 1),
    ]
    why = explain(found, host(), "exec", NOW)
    assert [(line.block_id, line.in_force) for line in why] == [("blk_1", True), ("blk_2", False)]
    assert why[0].text.endswith("until it is lifted (hold)")
    assert "not in force now, but from 2027-01-16T01:00:00.000Z (refuse)" in why[1].text


@pytest.mark.parametrize(
    "wrong",
    [
        {"selector": "*", "host_id": "hst_1"},
        {"host_id": None},
        {"selector": "web-["},
        {"command_type": ""},
        {"reason": " "},
        {"owner": ""},
        {"expires_at": NOW},
        {"window_json": '{"rrule":"FREQ=DAILY"}'},
        {"window_json": '{"rrule":"FREQ=NEVER","duration_seconds":5}'},
    ],
)
def test_a_wrong_block_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        check_block(block(**wrong), NOW)
    check_block(block(window_json=NIGHTS, expires_at=NOW + 1), NOW)


# -- drift -------------------------------------------------------------------------------------------


def test_drift_is_named() -> None:
    known = {
        found.id: found
        for found in (
            host("web-1"),
            host("web-2", state=HostState.GONE),
            host("web-3", labels={"env": "lab"}),
            host("web-4"),
            host("web-5"),
        )
    }
    pinned = [
        PinnedHost("hst_web-1", "web-1", {"env": "prod"}),
        PinnedHost("hst_web-2", "web-2"),
        PinnedHost("hst_web-3", "web-3", {"env": "prod"}),
        PinnedHost("hst_web-4", "web-4"),
        PinnedHost("hst_web-9", "web-9"),
    ]
    found = drift(pinned, known, ["hst_web-1", "hst_web-3", "hst_web-5"])
    assert (found.new, found.gone) == (("web-5",), ("web-2", "web-9"))
    assert found.changed == ("web-3", "web-4")
    named = drift(pinned, known, None)
    assert (named.new, named.changed) == ((), ("web-3",))


@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)))
def test_every_difference_is_counted_once(
    pinned: set[int], alive: set[int], selected: set[int]
) -> None:
    known = {f"hst_{n}": host(str(n), labels={}) for n in alive}
    targets = [PinnedHost(f"hst_{n}", str(n)) for n in pinned]
    found = drift(targets, known, [f"hst_{n}" for n in selected])
    assert found.new_count == len((selected & alive) - pinned)
    assert found.gone_count == len(pinned - alive)
    assert found.changed_count == len((pinned & alive) - selected)
    assert len(found.new) == min(found.new_count, NAMED_MAX)


SELECTORS = ["*", "env=prod", "env!=prod", "env~p*", "web-[1-3]", "*!web-[1-2]", "@canary", "@gone"]


@given(
    st.lists(st.sampled_from([*SELECTORS, None]), max_size=5),
    st.lists(st.sampled_from(["prod", "dev", ""]), min_size=1, max_size=5),
)
def test_blocks_about_many_hosts_are_those_about_each(
    texts: list[str | None], envs: list[str]
) -> None:
    hosts = [
        host(f"web-{n}", labels={"env": env} if env else {}) for n, env in enumerate(envs, start=1)
    ]
    groups = {"canary": parse("web-1")}
    given_blocks = [
        block(f"blk_{n}", selector=text, host_id="hst_web-2" if text is None else None)
        for n, text in enumerate(texts)
    ]
    found = by_host(given_blocks, hosts, groups)
    assert found == {
        each.id: [one for one in given_blocks if matches_host(one, each, groups)] for each in hosts
    }


def test_a_selector_is_evaluated_once_for_all_hosts() -> None:
    """A request over many hosts must not cost a unit of work for each pair of block and host."""
    decoded = 0

    class Counting(Host, frozen=True):
        @property
        def labels(self) -> dict[str, str]:
            nonlocal decoded
            decoded += 1
            return super().labels

    hosts = [Counting(**msgspec.structs.asdict(host(f"web-{n}"))) for n in range(50)]
    given_blocks = [block(f"blk_{n}", selector=f"env=other-{n}", host_id=None) for n in range(40)]
    assert not any(by_host(given_blocks, hosts).values())
    assert decoded == len(hosts)
