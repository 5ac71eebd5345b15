"""Approvals: votes, expiry, withdrawal."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.errors import (
    ApprovalVoid,
    Forbidden,
    SelfApproval,
)
from holdfast.core.fleet.approvals.approval import (
    JOB_STATES,
    Ballot,
    Person,
    RequestState,
    VoteVerdict,
    as_of,
    eligible,
    eligible_text,
    excluded_of,
    tally,
    vote,
)
from holdfast.core.fleet.approvals.rules import (
    DEFAULT_RULE,
    ApprovalRule,
    VoterGroup,
)
from holdfast.core.fleet.model import ApprovalState, Vote
from holdfast.errors import (
    AlreadyDecided,
    HoldfastError,
    IllegalTransition,
    InvalidInput,
    NotFound,
)
from tests.unit.core.fleet.approval_support import (
    APPROVER,
    DIGEST,
    NAMES,
    NOW,
    PEOPLE,
    SECURITY,
    TWO,
    Poll,
    ballot,
    request,
)


def rules() -> st.SearchStrategy[ApprovalRule]:
    return st.builds(
        ApprovalRule,
        all_of=st.lists(
            st.builds(
                VoterGroup,
                count=st.integers(1, 2),
                from_=st.sets(st.sampled_from([APPROVER, SECURITY, "user:bob"]), min_size=1).map(
                    tuple
                ),
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
        deny=st.integers(1, 2),
    )


def test_every_group_has_to_be_satisfied_and_a_person_counts_once() -> None:
    poll = Poll()
    assert poll.vote("user:eve").request.state == "pending"
    assert poll.vote("user:kim").request.state == "approved"
    again = Poll()
    again.vote("user:bob")
    assert again.vote("user:eve").request.state == "approved"


def test_the_order_of_votes_does_not_count() -> None:
    """The vote of a member of both groups moves to the group that still needs it."""
    poll = Poll()
    poll.vote("user:eve")
    assert poll.vote("user:bob").request.state == "approved"


@given(st.permutations(["user:bob", "user:eve", "user:kim"]), st.integers(0, 3), rules())
def test_the_same_people_satisfy_a_rule_in_any_order(
    names: list[str], count: int, rule: ApprovalRule
) -> None:
    def votes(order: list[str]) -> list[Vote]:
        return [vote(request(TWO), [], ballot(name), NOW).vote for name in order]

    chosen = names[:count]
    found = tally(rule, votes(chosen), DIGEST)
    assert found.is_satisfied == tally(rule, votes(sorted(chosen)), DIGEST).is_satisfied
    assert found.is_satisfied == any(
        is_assignment(rule, order) for order in itertools.permutations(chosen)
    )


def is_assignment(rule: ApprovalRule, order: tuple[str, ...]) -> bool:
    """Whether people in this order fill the places of the groups, one after the other."""
    places = [group.from_ for group in rule.all_of for _ in range(group.count)]
    return len(order) >= len(places) and all(
        PEOPLE[name].is_in(members) for name, members in zip(order, places, strict=False)
    )


def test_one_person_in_both_groups_is_not_enough() -> None:
    poll = Poll()
    poll.vote("user:eve")
    counted = tally(TWO, list(poll.votes.values()), DIGEST)
    assert sum(counted.have.values()) == 1
    assert not counted.is_satisfied


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_the_requester_does_not_vote_whatever_its_roles(verdict: str) -> None:
    with pytest.raises(SelfApproval, match="another person votes; needed: 1 of role:approver"):
        Poll().vote("user:ann", verdict)


def test_an_editor_and_the_owner_of_the_token_are_excluded() -> None:
    assert excluded_of(request()) == {"user:ann", "user:lee"}
    poll = Poll()
    lee = Ballot(
        person=Person("user:lee", frozenset({APPROVER})), verdict=VoteVerdict.APPROVE, reason="r"
    )
    with pytest.raises(SelfApproval):
        vote(poll.request, [], lee, NOW)


def test_who_is_in_no_group_may_not_vote() -> None:
    with pytest.raises(Forbidden, match="may not vote"):
        Poll().vote("user:joe")
    assert eligible(request(), PEOPLE.values()) == ["user:bob", "user:eve", "user:kim"]
    assert "1 of role:security; not user:ann, user:lee" in eligible_text(TWO, request())


def test_rejections_end_the_request() -> None:
    poll = Poll()
    assert poll.vote("user:bob", "reject").request.state == "pending"
    assert poll.vote("user:kim", "reject").request.state == "rejected"
    with pytest.raises(AlreadyDecided, match="it is rejected"):
        poll.vote("user:eve")


def test_the_same_vote_again_answers_the_same_also_after_the_end() -> None:
    poll = Poll(DEFAULT_RULE)
    first = poll.vote("user:bob")
    again = poll.vote("user:bob", now=NOW + 99_999)
    assert (again.request, again.vote, again.is_repeat) == (first.request, first.vote, True)


def test_another_vote_of_a_person_takes_the_place_of_the_first() -> None:
    poll = Poll()
    poll.vote("user:bob")
    poll.vote("user:bob", "reject")
    counted = tally(TWO, list(poll.votes.values()), DIGEST)
    assert (counted.denied, sum(counted.have.values())) == (1, 0)


def test_a_vote_needs_a_reason() -> None:
    with pytest.raises(InvalidInput, match="reason"):
        vote(request(), [], replace(ballot("user:bob"), reason="  "), NOW)


def test_a_request_expires_by_the_clock() -> None:
    poll = Poll()
    end = poll.request.expires_at
    assert as_of(poll.request, end - 0.1) is poll.request
    assert as_of(poll.request, end).state == "expired"
    with pytest.raises(AlreadyDecided, match="it is expired"):
        poll.vote("user:bob", now=end)


def test_a_moved_digest_makes_the_request_void() -> None:
    poll = Poll(DEFAULT_RULE)
    poll.vote("user:bob")
    assert poll.request.state == "approved"
    assert as_of(poll.request, NOW, digest=DIGEST) is poll.request
    gone = as_of(poll.request, NOW, digest="d1:b")
    assert (gone.state, gone.version) == ("void", poll.request.version + 1)
    with pytest.raises(ApprovalVoid):
        vote(gone, [], ballot("user:eve"), NOW)
    with pytest.raises(ApprovalVoid):
        vote(request(), [], ballot("user:eve", expect_digest="d1:b"), NOW)
    with pytest.raises(ApprovalVoid):
        vote(request(), [], ballot("user:eve"), NOW, digest="d1:b")


def test_votes_on_another_digest_do_not_count() -> None:
    poll = Poll(DEFAULT_RULE)
    old = replace(poll.vote("user:bob").vote, digest="d1:old")
    assert not tally(DEFAULT_RULE, [old], DIGEST).is_satisfied


def test_a_vote_is_withdrawn_before_the_start_only() -> None:
    poll = Poll(DEFAULT_RULE)
    with pytest.raises(NotFound):
        poll.withdraw("user:bob")
    poll.vote("user:bob")
    with pytest.raises(IllegalTransition, match="has started"):
        poll.withdraw("user:bob", is_started=True)
    taken = poll.withdraw("user:bob")
    assert (taken.request.state, taken.request.ended_at) == ("pending", None)
    assert poll.withdraw("user:bob").is_repeat
    assert poll.vote("user:bob").request.state == "approved"
    assert poll.withdraw("user:bob", now=NOW + 9_999).request.state == "expired"


def test_a_rejection_is_not_withdrawn_after_the_end() -> None:
    poll = Poll(DEFAULT_RULE)
    poll.vote("user:bob", "reject")
    with pytest.raises(AlreadyDecided):
        poll.withdraw("user:bob")


acts = st.tuples(
    st.sampled_from(["approve", "reject", "withdraw"]),
    st.sampled_from(NAMES),
    st.sampled_from([0.0, 1.0, 2_000.0]),
)


@given(rules(), st.lists(acts, max_size=20))
def test_the_laws_of_a_poll(rule: ApprovalRule, moves: list[tuple[str, str, float]]) -> None:
    poll, now = Poll(rule), NOW
    for what, name, seconds in moves:
        now += seconds
        before = poll.request
        try:
            cast = poll.withdraw(name, now) if what == "withdraw" else poll.vote(name, what, now)
        except HoldfastError:
            assert poll.request is before
            continue
        assert name in ("user:bob", "user:eve", "user:kim")
        if before.state in ("rejected", "expired", "void"):
            assert cast.is_repeat
        if not cast.is_repeat and cast.request is not before:
            assert cast.request.version > before.version
        assert (poll.request.state == "pending") == (poll.request.ended_at is None)
        counted = tally(rule, list(poll.votes.values()), DIGEST)
        voters = [v for v in poll.votes.values() if v.withdrawn_at is None]
        assert sum(counted.have.values()) <= sum(v.verdict == "approve" for v in voters)
        if poll.request.state == "approved":
            assert counted.is_satisfied
            assert counted.denied < rule.deny
        if poll.request.state == "rejected":
            assert counted.denied >= rule.deny


def test_every_state_of_a_request_is_one_of_the_job() -> None:
    assert set(JOB_STATES) == set(RequestState)
    assert set(JOB_STATES.values()) == set(ApprovalState) - {ApprovalState.NOT_REQUIRED}
