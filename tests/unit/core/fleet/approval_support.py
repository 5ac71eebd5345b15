"""Requests for an approval, and those who vote."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.fleet.approvals.approval import (
    Ballot,
    CastVote,
    Person,
    VoteVerdict,
    ask,
    vote,
    withdraw,
)
from holdfast.core.fleet.approvals.rules import (
    ApprovalRule,
    VoterGroup,
)
from holdfast.core.fleet.model import ApprovalRequest, Vote

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
