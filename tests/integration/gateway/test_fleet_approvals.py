"""Approvals over the API: votes, what they lead to, break-glass."""

from __future__ import annotations

import pytest

from holdfast.core.fleet.approvals.rules import ApprovalRule, VoterGroup
from holdfast.gateway.fleet_settings import FleetSettings
from tests.integration.gateway.fleet_support import FleetSite
from tests.integration.gateway.support import ADMIN, Site, open_site, problem


@pytest.fixture
def fleet(memory_site: Site) -> FleetSite:
    return FleetSite(memory_site)


async def named(site: Site, name: str, role: str, *, by: str = ADMIN) -> str:
    """The token of a person."""
    made = await site.ask("POST", "/tokens", {"name": name, "roles": [role]}, token=by)
    token: str = made.json()["token"]
    return token


async def test_a_job_waits_for_a_vote_and_starts(site: Site) -> None:
    fleet = FleetSite(site)
    await fleet.hosts(2)
    asked = await fleet.asked(external_id="deploy")
    assert (asked["status"], asked["approval_state"]) == ("WAIT_APPROVAL", "WAIT_APPROVAL")
    waiting = (await fleet.get("/approvals", state="pending"))["items"]
    assert [row["job"]["id"] for row in waiting] == [asked["job_id"]]
    assert (waiting[0]["digest"], waiting[0]["eligible"]) == (
        asked["digest"],
        ["role:admin", "role:approver"],
    )
    token = await site.token("approver")
    body = {"expect_digest": asked["digest"]}
    voted = await fleet.do("approve", asked, token=token, **body)
    assert voted.status_code == 200, voted.text
    answer = voted.json()
    assert (answer["approval_state"], answer["approval"]["state"]) == ("APPROVED", "approved")
    assert answer["approval"]["have"] == answer["approval"]["need"]
    assert [vote["voter"] for vote in answer["approval"]["votes"]] == ["user:approver"]
    again = await fleet.do("approve", asked, token=token, **body)
    assert (again.status_code, again.json()["repeated"]) == (200, True)
    assert (await fleet.get("/approvals"))["items"] == []
    other = await fleet.do("reject", asked)
    assert problem(other) == (409, "already-decided")
    assert other.json()["current"]["state"] == "approved"
    await fleet.run_out(asked)
    job = await fleet.get(f"/jobs/{asked['job_id']}")
    assert (job["status"], job["approval"]["votes"][0]["reason"]) == ("SUCCESS", "r")
    audit = (await fleet.get("/audit"))["items"]
    assert [row["operation"] for row in audit if row["subject"] == asked["job_id"]] == [
        "jobs.approve",
        "jobs.create",
    ]


async def test_no_one_approves_what_he_asked_for(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    both = await fleet.site.token("operator", "approver")
    made = await fleet.job(token=both, command_type="shell", command="uptime")
    assert problem(await fleet.do("approve", made, token=both)) == (403, "self-approval")
    admin = await fleet.job(command_type="shell", command="uptime")
    assert problem(await fleet.do("approve", admin)) == (403, "self-approval")
    operator = await fleet.site.token("operator")
    assert problem(await fleet.do("approve", made, token=operator)) == (403, "forbidden")


async def test_no_one_approves_with_a_token_that_the_requester_has_made(fleet: FleetSite) -> None:
    """Also through others, and also if the requester has only rotated it."""
    await fleet.hosts(1)
    ann = await named(fleet.site, "ann", "admin")
    second = await named(fleet.site, "second", "admin", by=ann)
    third = await named(fleet.site, "third", "approver", by=second)
    made = await fleet.job(token=ann, command_type="shell", command="uptime")
    for token in (second, third):
        assert problem(await fleet.do("approve", made, token=token)) == (403, "self-approval")
    bob = await named(fleet.site, "bob", "approver")
    [row] = [t for t in (await fleet.get("/tokens"))["items"] if t["principal"] == "user:bob"]
    rotated = await fleet.site.ask("POST", f"/tokens/{row['id']}/rotate", token=ann)
    bob = rotated.json()["token"]
    assert problem(await fleet.do("approve", made, token=bob)) == (403, "self-approval")
    eve = await named(fleet.site, "eve", "approver")
    assert (await fleet.do("approve", made, token=eve)).status_code == 200


async def test_an_editor_does_not_approve_with_a_token_that_he_has_made(site: Site) -> None:
    fleet = FleetSite(site)
    await fleet.hosts(3)
    ann = await named(site, "ann", "admin")
    bob = await named(site, "bob", "approver", by=ann)
    made = await fleet.asked(rollout={"max_in_flight": 5})
    change = {"max_in_flight": 2, "reason": "r"}
    edited = await site.ask("PATCH", f"/jobs/{made['job_id']}", change, token=ann)
    assert edited.status_code == 200, edited.text
    for token in (ann, bob):
        assert problem(await fleet.do("approve", made, token=token)) == (403, "self-approval")
    eve = await named(site, "eve", "approver")
    assert (await fleet.do("approve", made, token=eve)).status_code == 200


async def test_one_person_with_two_tokens_gives_one_of_two_votes() -> None:
    rule = ApprovalRule(name="two", all_of=(VoterGroup(count=2),))
    async with open_site("sqlite://", fleet=FleetSettings(approval_rules=(rule,))) as site:
        fleet = FleetSite(site)
        await fleet.hosts(1)
        ann = await named(site, "ann", "admin")
        bob = await named(site, "bob", "approver", by=ann)
        made = await fleet.asked()
        assert (await fleet.do("approve", made, token=ann)).status_code == 200
        assert problem(await fleet.do("approve", made, token=bob)) == (403, "self-approval")
        await fleet.do("withdraw", made, token=ann)
        assert (await fleet.do("approve", made, token=bob)).status_code == 200


async def test_break_glass_is_reviewed_by_another_person(fleet: FleetSite) -> None:
    """Neither by who used it, nor by the requester, nor with a token that one of the two has made."""
    await fleet.hosts(1)
    ann = await named(fleet.site, "ann", "admin")
    bob = await named(fleet.site, "bob", "approver", by=ann)
    both = await fleet.site.token("operator", "approver")
    made = await fleet.job(token=both, command_type="shell", command="uptime")
    broken = await fleet.do("break-glass", made, ticket="INC-1", token=ann)
    assert broken.status_code == 200, broken.text
    for token in (ann, bob, both):
        answer = await fleet.do("break-glass/review", made, token=token)
        assert problem(answer) == (403, "self-approval")
    eve = await named(fleet.site, "eve", "approver")
    assert (await fleet.do("break-glass/review", made, token=eve)).status_code == 200


async def test_who_made_the_token_of_a_request_does_not_approve_it(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    boss = await named(fleet.site, "boss", "admin")
    ci = await named(fleet.site, "ci", "operator", by=boss)
    made = await fleet.job(token=ci, command_type="shell", command="uptime")
    waiting = (await fleet.get("/approvals"))["items"]
    assert waiting[0]["excluded"] == ["user:boss", "user:ci"]
    assert problem(await fleet.do("approve", made, token=boss)) == (403, "self-approval")


async def test_a_rejection_ends_what_has_not_started(fleet: FleetSite) -> None:
    await fleet.hosts(2)
    asked = await fleet.asked()
    token = await fleet.site.token("approver")
    empty = await fleet.do("reject", asked, token=token, reason=" ")
    assert problem(empty) == (422, "invalid-input")
    rejected = await fleet.do("reject", asked, token=token, reason="not today")
    assert rejected.json()["approval_state"] == "REJECTED"
    await fleet.bench.plan(asked["job_id"])
    job = await fleet.get(f"/jobs/{asked['job_id']}")
    assert (job["status"], job["counts"]["CANCELLED"]) == ("REJECTED", 2)
    late = await fleet.do("approve", asked, token=token)
    assert problem(late) == (409, "already-decided")


async def test_a_vote_is_taken_back_before_the_start(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    asked = await fleet.asked()
    token = await fleet.site.token("approver")
    assert problem(await fleet.do("withdraw", asked, token=token)) == (404, "not-found")
    await fleet.do("approve", asked, token=token)
    back = await fleet.do("withdraw", asked, token=token)
    assert back.json()["approval_state"] == "WAIT_APPROVAL"


async def test_a_vote_on_something_else_is_void(fleet: FleetSite) -> None:
    await fleet.hosts(1)
    asked = await fleet.asked()
    token = await fleet.site.token("approver")
    other = await fleet.do("approve", asked, token=token, expect_digest="d1:0")
    assert problem(other) == (409, "approval-void")
    await fleet.site.ask("POST", "/blocks", {"selector": "*", "reason": "r", "effect": "hold"})
    moved = await fleet.do("approve", asked, token=token)
    assert problem(moved) == (409, "approval-void")
    job = await fleet.get(f"/jobs/{asked['job_id']}")
    assert (job["digest"] != asked["digest"], job["approval"]["votes"]) == (True, [])
    voted = await fleet.do("approve", asked, token=token, expect_digest=job["digest"])
    assert voted.json()["approval_state"] == "APPROVED"


async def test_two_people() -> None:
    rule = ApprovalRule(name="two", all_of=(VoterGroup(count=2, from_=("role:approver",)),))
    async with open_site("sqlite://", fleet=FleetSettings(approval_rules=(rule,))) as site:
        fleet = FleetSite(site)
        await fleet.hosts(1)
        asked = await fleet.asked()
        votes = []
        for name in ("ann", "bob"):
            token = await named(site, name, "approver")
            votes.append((await fleet.do("approve", asked, token=token)).json())
        assert [vote["approval_state"] for vote in votes] == ["WAIT_APPROVAL", "APPROVED"]
        assert list(votes[0]["approval"]["have"].values()) == [1]


async def test_the_glass_is_broken_once_until_the_review(fleet: FleetSite) -> None:
    await fleet.hosts(2)
    first, second = await fleet.asked(), await fleet.asked(external_id="second")
    assert problem(await fleet.do("break-glass", first)) == (422, "invalid-input")
    operator = await fleet.site.token("operator")
    refused = await fleet.do("break-glass", first, token=operator, ticket="INC-1")
    assert problem(refused) == (403, "forbidden")
    broken = await fleet.do("break-glass", first, ticket="INC-1")
    assert broken.status_code == 200, broken.text
    job = await fleet.get(f"/jobs/{first['job_id']}")
    assert (job["break_glass"], job["glass"]["ticket"]) == (True, "INC-1")
    rows = (await fleet.get(f"/jobs/{first['job_id']}/executions"))["items"]
    assert all(row["break_glass"] for row in rows)
    blocked = await fleet.do("break-glass", second, ticket="INC-2")
    assert problem(blocked) == (409, "approval-needed")
    own = await fleet.do("break-glass/review", first)
    assert problem(own) == (403, "self-approval")
    approver = await fleet.site.token("approver")
    reviewed = await fleet.do("break-glass/review", first, token=approver)
    assert reviewed.status_code == 200, reviewed.text
    job = await fleet.get(f"/jobs/{first['job_id']}")
    assert job["glass"]["reviewed_by"] == "user:approver"
    assert (await fleet.do("break-glass", second, ticket="INC-2")).status_code == 200
    none = await fleet.do("break-glass/review", await fleet.job(), token=approver)
    assert problem(none) == (409, "illegal-transition")
