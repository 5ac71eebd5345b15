"""Approvals: rules, votes, expiry, withdrawal, break-glass."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.errors import (
    ApprovalNeeded,
    ApprovalVoid,
    CommandRefused,
    Forbidden,
    SelfApproval,
)
from holdfast.core.fleet.approvals.approval import (
    JOB_STATES,
    Ballot,
    CastVote,
    Person,
    RequestState,
    VoteVerdict,
    as_of,
    ask,
    eligible,
    eligible_text,
    excluded_of,
    rule_of,
    tally,
    vote,
    withdraw,
)
from holdfast.core.fleet.approvals.break_glass import break_glass, reviewed
from holdfast.core.fleet.approvals.rules import (
    DEFAULT_RULE,
    ApprovalMatch,
    ApprovalRule,
    NotRequired,
    VoterGroup,
    check_rules,
    matching_in,
    rule_for,
)
from holdfast.core.fleet.model import ApprovalRequest, ApprovalState, Host, HostDriver, Vote
from holdfast.errors import (
    AlreadyDecided,
    BadConfig,
    HoldfastError,
    IllegalTransition,
    InvalidInput,
    NotFound,
)

NOW = 1_000.0
DIGEST = "d1:a"
APPROVER, SECURITY = "role:approver", "role:security"
TWO = ApprovalRule(all_of=(VoterGroup(from_=(APPROVER,)), VoterGroup(from_=(SECURITY,))), deny=2)
NAMES = ["user:ann", "user:bob", "user:eve", "user:kim", "user:joe"]
PEOPLE = {
    "user:bob": Person("user:bob", frozenset({APPROVER})),
    "user:eve": Person("user:eve", frozenset({APPROVER, SECURITY, "role:admin"})),
    "user:kim": Person("user:kim", frozenset({SECURITY})),
    "user:ann": Person("user:ann", frozenset({APPROVER, SECURITY, "role:admin"})),
    "user:joe": Person("user:joe", frozenset({"role:viewer"})),
}


def request(rule: ApprovalRule = TWO, **changes: Any) -> ApprovalRequest:
    made = ask(
        rule,
        approval_id="apr_1",
        project="default",
        job_id="job_1",
        digest=DIGEST,
        requested_by="user:ann",
        excluded=["user:lee"],
        now=NOW,
    )
    return replace(made, **changes)


def ballot(name: str, verdict: VoteVerdict = VoteVerdict.APPROVE, **changes: Any) -> Ballot:
    return Ballot(person=PEOPLE[name], verdict=verdict, reason="looks right", **changes)


class Poll:
    """The rows, as the store has them."""

    def __init__(self, rule: ApprovalRule = TWO) -> None:
        self.request = request(rule)
        self.votes: dict[str, Vote] = {}

    def vote(self, name: str, verdict: str = "approve", now: float = NOW + 1) -> CastVote:
        cast = vote(
            self.request, list(self.votes.values()), ballot(name, VoteVerdict(verdict)), now
        )
        return self.kept(cast)

    def withdraw(self, name: str, now: float = NOW + 1, *, is_started: bool = False) -> CastVote:
        votes = list(self.votes.values())
        return self.kept(withdraw(self.request, votes, name, now, is_started=is_started))

    def kept(self, cast: CastVote) -> CastVote:
        if cast.is_repeat:
            assert cast.request is self.request
        self.request = cast.request
        self.votes[cast.vote.voter] = cast.vote
        return cast


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


# -- rules -------------------------------------------------------------------------------------------


def host(name: str, **labels: str) -> Host:
    labels_json = msgspec.json.encode(labels).decode()
    return Host(
        id=f"hst_{name}",
        project="default",
        name=name,
        driver=HostDriver.AGENT,
        labels_json=labels_json,
        created_at=NOW,
        updated_at=NOW,
    )


FLEET = [*(host(f"web-{n}", env="prod") for n in range(6)), *(host(f"lab-{n}") for n in range(4))]
RULES = [
    ApprovalRule(name="read", match=ApprovalMatch(command_type="get-*"), auto=True),
    ApprovalRule(name="lab", match=ApprovalMatch(selector="lab-[0-3]"), auto=True),
    ApprovalRule(name="prod", match=ApprovalMatch(selector="env=prod", min_hosts=3)),
    ApprovalRule(name="wide", match=ApprovalMatch(share=0.5)),
]


def found(command_type: str, hosts: list[Host], **options: Any) -> ApprovalRule | NotRequired:
    matching = matching_in(hosts, {})
    return rule_for(
        options.pop("rules", RULES),
        command_type,
        len(hosts),
        len(FLEET),
        matching=matching,
        **options,
    )


def test_the_first_rule_that_matches_counts() -> None:
    assert isinstance(found("get-facts", FLEET), NotRequired)
    assert isinstance(found("exec", FLEET[6:8]), NotRequired)
    assert found("exec", FLEET[:3]) is RULES[2]
    assert found("exec", FLEET[2:8]) is RULES[2]
    assert found("exec", FLEET[5:10]) is RULES[3]


def test_a_rule_that_approves_by_itself_needs_all_hosts_in_its_selector() -> None:
    assert not isinstance(found("exec", [FLEET[0], *FLEET[6:]]), NotRequired)


def test_what_no_rule_matches_needs_an_approval() -> None:
    one = FLEET[:1]
    assert found("exec", one) is DEFAULT_RULE
    assert found("exec", one, rules=[]) is DEFAULT_RULE
    assert found("exec", one, rules=[], default="something") is DEFAULT_RULE
    assert isinstance(found("exec", one, default="none"), NotRequired)
    assert isinstance(found("exec", one, above=1), NotRequired)
    assert found("exec", FLEET[:2], above=1) is DEFAULT_RULE


def test_a_command_type_names_its_rule() -> None:
    assert isinstance(found("ping", FLEET, named="none"), NotRequired)
    assert found("get-x", FLEET, named="wide") is RULES[3]
    assert found("get-x", FLEET, named="no such rule") is DEFAULT_RULE
    assert isinstance(found("exec", FLEET, named="read"), NotRequired)


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (ApprovalRule(all_of=()), "all_of"),
        (ApprovalRule(all_of=(VoterGroup(from_=()),)), "from is empty"),
        (ApprovalRule(all_of=(VoterGroup(from_=("bob",)),)), "role:NAME"),
        (ApprovalRule(all_of=(VoterGroup(count=0),)), "count"),
        (ApprovalRule(deny=0), "deny"),
        (ApprovalRule(expires_seconds=0), "expires_seconds"),
        (ApprovalRule(match=ApprovalMatch(share=2)), "share"),
        (ApprovalRule(match=ApprovalMatch(min_hosts=-1)), "min_hosts"),
    ],
)
def test_a_wrong_rule_is_refused(rule: ApprovalRule, named: str) -> None:
    with pytest.raises(BadConfig, match=named):
        check_rules([rule])
    check_rules(RULES)


def test_a_rule_is_written_as_in_the_settings() -> None:
    text = b'{"match":{"min_hosts":5},"all_of":[{"count":2,"from":["user:bob"]}],"deny":1}'
    rule = msgspec.json.decode(text, type=ApprovalRule)
    assert rule.all_of == (VoterGroup(count=2, from_=("user:bob",)),)
    assert rule_of(request(rule)) == rule


# -- votes -------------------------------------------------------------------------------------------


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


# -- break-glass -------------------------------------------------------------------------------------


def glass(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "actor": "user:ann",
        "reason": "site down",
        "ticket": "INC-1",
        "hosts": 20,
        "max_hosts": 20,
        "now": NOW,
    }
    state = changes.pop("state", ApprovalState.WAIT_APPROVAL)
    return break_glass(state, **(values | changes))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"reason": " "}, InvalidInput),
        ({"ticket": " "}, InvalidInput),
        ({"hosts": 21}, CommandRefused),
        ({"unreviewed": ["job_0"]}, ApprovalNeeded),
        ({"state": ApprovalState.REJECTED}, IllegalTransition),
        ({"state": ApprovalState.NOT_REQUIRED}, IllegalTransition),
    ],
)
def test_break_glass_has_bounds(changes: dict[str, Any], error: type[HoldfastError]) -> None:
    with pytest.raises(error):
        glass(**changes)


def test_another_person_reviews_the_use_of_break_glass() -> None:
    record = glass()
    with pytest.raises(SelfApproval):
        reviewed(record, by="user:ann", note="fine", now=NOW)
    done = reviewed(record, by="user:bob", note="fine", now=NOW + 1)
    assert done.reviewed_by == "user:bob"
    assert reviewed(done, by="user:eve", note="too", now=NOW + 2) is done
