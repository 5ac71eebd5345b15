"""Starts of nodes: incarnations, repeats, and copies that share one identity."""

from __future__ import annotations

from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.node_identity import (
    CLONE_CHANGES,
    REPEAT_SECONDS,
    Cloned,
    NodeIdentity,
    NodeState,
    Repeated,
    ShutOut,
    Started,
    may_claim,
    start,
)


def started(identity: NodeIdentity | None, boot_id: str | None, now: float) -> NodeIdentity:
    answer = start(identity, boot_id=boot_id, now=now)
    assert isinstance(answer, Started), answer
    return answer.identity


def test_a_first_start_needs_a_credential() -> None:
    answer = start(None, boot_id="a", now=5.0)
    assert isinstance(answer, Started)
    assert answer.needs_credential
    assert (answer.identity.incarnation, answer.identity.state) == (1, NodeState.LIVE)
    assert answer.identity.started_at == answer.identity.issued_at == 5.0


def test_each_start_is_an_incarnation_and_keeps_the_credential() -> None:
    first = started(None, "a", 0.0)
    answer = start(first, boot_id="b", now=1.0)
    assert isinstance(answer, Started)
    assert (answer.identity.incarnation, answer.needs_credential) == (2, False)
    assert started(answer.identity, None, 2.0).incarnation == 3, "without a boot id too"


def test_a_rotation_needs_a_credential() -> None:
    answer = start(started(None, "a", 0.0), boot_id="b", now=1.0, rotate=True)
    assert isinstance(answer, Started)
    assert answer.needs_credential
    assert answer.identity.issued_at == 1.0


def test_a_repeat_is_the_same_start() -> None:
    """The answer that carried the credential may be lost, so a repeat makes another one."""
    first = started(None, "a", 0.0)
    assert start(first, boot_id="a", now=59.9) == Repeated(first, needs_credential=True)
    second = started(first, "b", 1.0)
    assert start(second, boot_id="b", now=2.0) == Repeated(second, needs_credential=False)
    assert started(second, "b", 1.0 + REPEAT_SECONDS).incarnation == 3, "a repeat comes soon"


def test_an_unused_credential_is_made_again_for_its_process_only() -> None:
    first, late = started(None, "a", 0.0), 2 * REPEAT_SECONDS
    same = start(first, boot_id="a", now=late, is_unused=True)
    assert isinstance(same, Started)
    assert (same.needs_credential, same.identity.issued_at) == (True, late)
    for boot_id in ("b", None):
        other = start(first, boot_id=boot_id, now=late, is_unused=True)
        assert isinstance(other, Started)
        assert not other.needs_credential


def test_two_processes_that_take_turns_are_quarantined() -> None:
    identity = started(None, "a", 0.0)
    for n in range(1, CLONE_CHANGES + 1):
        identity = started(identity, "ab"[n % 2], float(n))
    answer = start(identity, boot_id="a", now=9.0)
    assert isinstance(answer, Cloned)
    assert answer.identity.state is NodeState.QUARANTINED
    assert start(answer.identity, boot_id="a", now=10.0) == ShutOut(NodeState.QUARANTINED)


def test_turns_that_are_far_apart_are_restarts() -> None:
    identity = started(None, "a", 0.0)
    for n in range(1, 20):
        identity = started(identity, "ab"[n % 2], n * 30.0)
    assert identity.incarnation == 20


@given(st.lists(st.floats(0, 5), max_size=30))
def test_a_process_that_dies_at_each_start_is_no_copy(gaps: list[float]) -> None:
    identity, now = started(None, "boot", 0.0), 0.0
    for n, gap in enumerate(gaps):
        now += gap
        identity = started(identity, f"boot-{n}", now)
    assert identity.incarnation == len(gaps) + 1


@given(st.integers(4, 12), st.data())
def test_a_late_copy_of_an_old_start_does_not_make_reboots_a_copy(
    boots: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, boots - 1))
    old = data.draw(st.integers(0, at - 1))
    names = [f"boot-{n}" for n in range(boots)]
    names[at + 1 : at + 1] = [f"boot-{old}", f"boot-{at}"]
    identity = None
    for n, name in enumerate(names):
        identity = started(identity, name, float(n))
    assert identity is not None
    assert identity.incarnation == len(names)


@given(st.integers(2, 6), st.booleans())
def test_machines_that_take_turns_are_found_also_if_their_processes_have_names(
    machines: int, has_names: bool
) -> None:
    """With names as soon as without: a machine does not return to a boot."""
    identity = None
    for n in range(2 * machines + 1):
        boot_id, session = f"boot-{n % machines}", f"s{n % machines}"
        is_named = has_names and n >= machines  # it was fenced
        answer = start(identity, boot_id=boot_id, now=float(n), session=session if is_named else "")
        if isinstance(answer, Cloned):
            return
        assert isinstance(answer, Started)
        identity = answer.identity
    raise AssertionError("the machines were not found")


@given(st.integers(2, 12), st.integers(0, 3))
def test_processes_that_take_turns_are_found_among_reboots(processes: int, reboots: int) -> None:
    identity = None
    for n in range(reboots):
        identity = started(identity, f"boot-{n}", float(n))
    for n in range(2 * processes + 1):
        answer = start(identity, boot_id="abcdefghijkl"[n % processes], now=float(reboots + n))
        if isinstance(answer, Cloned):
            return
        assert isinstance(answer, Started)
        identity = answer.identity
    raise AssertionError("the processes were not found")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 40)), max_size=30))
def test_incarnations_rise_by_one_and_shut_out_is_final(starts: list[tuple[str, float]]) -> None:
    identity: NodeIdentity | None = None
    now = 0.0
    for boot_id, gap in starts:
        now += gap
        answer = start(identity, boot_id=boot_id, now=now)
        before = identity.incarnation if identity else 0
        if isinstance(answer, Started):
            assert answer.identity.incarnation == before + 1
        elif isinstance(answer, Repeated):
            assert answer.identity == identity
        elif isinstance(answer, Cloned):
            assert answer.identity.incarnation == before
        else:
            assert identity is not None
            assert identity.state is NodeState.QUARANTINED
            continue
        identity = answer.identity


def test_only_a_live_node_claims() -> None:
    assert [state for state in NodeState if may_claim(state)] == [NodeState.LIVE]
    revoked = replace(started(None, None, 0.0), state=NodeState.REVOKED)
    assert start(revoked, boot_id=None, now=1.0) == ShutOut(NodeState.REVOKED)
