"""Approvals of jobs: votes, and what they lead to.

A request is bound to the digest of its job. Promises: only a pending request changes by a vote; the
requester, the last editor and the owner of the token never count, in whatever role; each person has one vote,
and counts for one group of the rule; a repeat of a vote gets the same answer; after its time a request has
expired, also for a reader that comes before the sweeper; if the digest of the job has moved before its start,
the request is void.
Never: I/O, clocks. The caller writes the result by compare-and-set on the state and the version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.errors import ApprovalVoid, Forbidden, SelfApproval
from holdfast.core.fleet.approvals.rules import ApprovalRule, VoterGroup
from holdfast.core.fleet.model import ApprovalRequest, ApprovalState, Vote
from holdfast.errors import AlreadyDecided, IllegalTransition, InvalidInput, NotFound


class RequestState(StrEnum):
    """Where a request stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    VOID = "void"


class VoteVerdict(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"


JOB_STATES: Final = {
    RequestState.PENDING: ApprovalState.WAIT_APPROVAL,
    RequestState.APPROVED: ApprovalState.APPROVED,
    RequestState.REJECTED: ApprovalState.REJECTED,
    RequestState.EXPIRED: ApprovalState.EXPIRED,
    RequestState.VOID: ApprovalState.VOID,
}
"""The approval state of a job, by that of its request."""


class Person(msgspec.Struct, frozen=True):
    """A voter: the name of the principal, and its roles."""

    name: str
    memberships: frozenset[str] = frozenset()
    """`role:NAME`."""

    def is_in(self, members: Iterable[str]) -> bool:
        return not ({self.name} | self.memberships).isdisjoint(members)


class Ballot(msgspec.Struct, frozen=True, kw_only=True):
    """A vote that was sent."""

    person: Person
    verdict: VoteVerdict
    reason: str
    expect_digest: str | None = None
    """The digest that the voter has seen. None: it was not given."""


class CastVote(msgspec.Struct, frozen=True):
    """A request after a vote, and the row of the vote."""

    request: ApprovalRequest
    vote: Vote
    is_repeat: bool = False
    """Nothing has changed: there is nothing to write."""


def ask(
    rule: ApprovalRule,
    *,
    approval_id: str,
    project: str,
    job_id: str,
    digest: str,
    requested_by: str,
    excluded: Iterable[str] = (),
    now: float,
) -> ApprovalRequest:
    """A new request. `excluded` are the last editor and the owner of the token, beside the requester."""
    return ApprovalRequest(
        id=approval_id,
        project=project,
        job_id=job_id,
        digest=digest,
        rule_json=codec.dumps(rule),
        requested_by=requested_by,
        excluded_json=codec.dumps(sorted({requested_by, *excluded})),
        created_at=now,
        expires_at=now + rule.expires_seconds,
    )


def rule_of(request: ApprovalRequest) -> ApprovalRule:
    return msgspec.json.decode(request.rule_json, type=ApprovalRule)


def excluded_of(request: ApprovalRequest) -> frozenset[str]:
    return msgspec.json.decode(request.excluded_json, type=frozenset[str])


def as_of(request: ApprovalRequest, now: float, *, digest: str | None = None) -> ApprovalRequest:
    """The request as it is at this time, for a job with this digest; the same object if nothing has changed.
    An approval is void too if the job has changed since. None: the digest is not known."""
    if request.state not in (RequestState.PENDING, RequestState.APPROVED):
        return request
    if digest is not None and digest != request.digest:
        return _ended(request, RequestState.VOID, now)
    if request.state == RequestState.PENDING and request.expires_at <= now:
        return _ended(request, RequestState.EXPIRED, request.expires_at)
    return request


def vote(
    request: ApprovalRequest,
    votes: Sequence[Vote],
    ballot: Ballot,
    now: float,
    *,
    digest: str | None = None,
) -> CastVote:
    """The request with this vote. `votes` are all rows of the request, `digest` is that of the job as it is
    now (None: it is known to be the same). Raises SelfApproval, Forbidden,
    ApprovalVoid or AlreadyDecided, and InvalidInput without a reason."""
    name = ballot.person.name
    rule = rule_of(request)
    _check_voter(request, rule, ballot.person)
    if (before := repeated(request, votes, name, ballot.verdict)) is not None:
        return before
    current = as_of(request, now, digest=digest)
    if current.state == RequestState.VOID or ballot.expect_digest not in (None, current.digest):
        raise ApprovalVoid(
            f"job {request.job_id} is not what you have seen: read it again, then vote on what it does now"
        )
    if current.state != RequestState.PENDING:
        raise already(current)
    if not ballot.reason.strip():
        raise InvalidInput("reason is empty: a vote needs one")
    cast = Vote(
        approval_id=request.id,
        voter=name,
        verdict=ballot.verdict,
        reason=ballot.reason,
        digest=request.digest,
        roles_json=codec.dumps(sorted(ballot.person.memberships)),
        at=now,
    )
    return CastVote(_judged(current, rule, [*_others(votes, name), cast], now), cast)


def repeated(
    request: ApprovalRequest, votes: Sequence[Vote], name: str, verdict: VoteVerdict | None
) -> CastVote | None:
    """The vote that this person has given before, whatever has become of the job since. `verdict`: None if a
    vote is taken back."""
    own = next((v for v in votes if v.voter == name), None)
    if own is None or (own.withdrawn_at is not None) != (verdict is None):
        return None
    is_same = verdict is None or (own.verdict == verdict and own.digest == request.digest)
    return CastVote(request, own, is_repeat=True) if is_same else None


def withdraw(
    request: ApprovalRequest, votes: Sequence[Vote], name: str, now: float, *, is_started: bool
) -> CastVote:
    """The request without the vote of this person. An approved one waits again. Not after a start."""
    own = next((v for v in votes if v.voter == name), None)
    if own is None:
        raise NotFound(f"{name} has no vote on job {request.job_id}")
    if own.withdrawn_at is not None:
        return CastVote(request, own, is_repeat=True)
    current = as_of(request, now)
    if current.state not in (RequestState.PENDING, RequestState.APPROVED):
        raise already(current)
    if is_started:
        raise IllegalTransition(
            f"job {request.job_id} has started: its votes stay; pause or abort the job"
        )
    gone = replace(own, withdrawn_at=now)
    if current.state == RequestState.APPROVED:
        current = replace(
            current, state=RequestState.PENDING.value, ended_at=None, version=current.version + 1
        )
    judged = _judged(current, rule_of(request), _others(votes, name), now)
    return CastVote(as_of(judged, now), gone)


def _judged(
    request: ApprovalRequest, rule: ApprovalRule, votes: Sequence[Vote], now: float
) -> ApprovalRequest:
    found = tally(rule, votes, request.digest)
    if found.denied >= rule.deny:
        return _ended(request, RequestState.REJECTED, now)
    if found.is_satisfied:
        return _ended(request, RequestState.APPROVED, now)
    return request


def _ended(request: ApprovalRequest, state: RequestState, at: float) -> ApprovalRequest:
    return replace(request, state=state.value, ended_at=at, version=request.version + 1)


def _others(votes: Sequence[Vote], name: str) -> list[Vote]:
    return [v for v in votes if v.voter != name and v.withdrawn_at is None]


def _check_voter(request: ApprovalRequest, rule: ApprovalRule, person: Person) -> None:
    if person.name in excluded_of(request):
        raise SelfApproval(
            f"{person.name} asked for job {request.job_id}, edited it or owns its token: "
            f"another person votes; {eligible_text(rule, request)}"
        )
    if not any(person.is_in(group.from_) for group in rule.all_of):
        raise Forbidden(
            f"{person.name} may not vote on job {request.job_id}; {eligible_text(rule, request)}"
        )


# -- counting ----------------------------------------------------------------------------------------


class ApprovalTally(msgspec.Struct, frozen=True):
    """What the votes come to."""

    need: dict[str, int]
    """Votes that each group of the rule needs, by its members."""
    have: dict[str, int]
    denied: int
    is_satisfied: bool


def tally(rule: ApprovalRule, votes: Sequence[Vote], digest: str) -> ApprovalTally:
    """Counts the votes on this digest. Each person counts for one group, so that the groups together need as
    many people as they need votes."""
    counted = [v for v in votes if v.withdrawn_at is None and v.digest == digest]
    people = [_person(v) for v in counted if v.verdict == VoteVerdict.APPROVE]
    filled = _assigned(rule.all_of, people)
    need = {_key(at, group): group.count for at, group in enumerate(rule.all_of)}
    have = {_key(at, group): filled[at] for at, group in enumerate(rule.all_of)}
    denied = sum(v.verdict == VoteVerdict.REJECT for v in counted)
    return ApprovalTally(need, have, denied, need == have)


def _person(cast: Vote) -> Person:
    return Person(cast.voter, msgspec.json.decode(cast.roles_json, type=frozenset[str]))


def _key(at: int, group: VoterGroup) -> str:
    return f"{at + 1}: {' or '.join(group.from_)}"


def _assigned(groups: Sequence[VoterGroup], people: Sequence[Person]) -> list[int]:
    """How many people each group gets, if as many as possible count: a matching of people and places."""
    places = [at for at, group in enumerate(groups) for _ in range(group.count)]
    taken: dict[int, int] = {}

    def place(person: int, tried: set[int]) -> bool:
        for number, at in enumerate(places):
            if number in tried or not people[person].is_in(groups[at].from_):
                continue
            tried.add(number)
            if number not in taken or place(taken[number], tried):
                taken[number] = person
                return True
        return False

    for person in range(len(people)):
        place(person, set())
    filled = [0] * len(groups)
    for number in taken:
        filled[places[number]] += 1
    return filled


# -- texts -------------------------------------------------------------------------------------------


def eligible(request: ApprovalRequest, people: Iterable[Person]) -> list[str]:
    """Those of the people who may vote."""
    rule, excluded = rule_of(request), excluded_of(request)
    return sorted(
        person.name
        for person in people
        if person.name not in excluded and any(person.is_in(group.from_) for group in rule.all_of)
    )


def eligible_text(rule: ApprovalRule, request: ApprovalRequest) -> str:
    """Whose votes are needed, in one line."""
    groups = " and ".join(f"{group.count} of {' or '.join(group.from_)}" for group in rule.all_of)
    return f"needed: {groups}; not {', '.join(sorted(excluded_of(request)))}"


def already(request: ApprovalRequest) -> AlreadyDecided:
    """The answer to a vote that comes too late."""
    return AlreadyDecided(
        f"the approval of job {request.job_id} has ended: it is {request.state}", decision=request
    )
