"""Approval rules and blocks about facts count however a job names its hosts."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.fleet.approvals.rules import ApprovalMatch, ApprovalRule
from holdfast.core.fleet.model import ApprovalState
from holdfast.core.fleet.rules import FleetRules
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.hosts.groups import Groups
from holdfast.store.store import Store
from tests.conformance.fleet.agent_support import enrol, make_agents
from tests.conformance.fleet.job_support import FleetBench
from tests.conformance.fleet.support import BY, PROJECT
from tests.conformance.fleet.test_statement_counts import Counted

WAYS: dict[str, dict[str, Any]] = {
    "name": {"hosts": ["web-1"]},
    "label": {"selector": "role=web"},
    "all": {"selector": "*"},
    "fact": {"selector": "fact.env=prod"},
}
PROD = FleetRules(
    approval_rules=(ApprovalRule(name="prod", match=ApprovalMatch(selector="fact.env=prod")),)
)
NOT_PROD = FleetRules(
    approval_rules=(
        ApprovalRule(name="not-prod", match=ApprovalMatch(selector="fact.env!=prod"), auto=True),
    )
)


async def site(store: Store, rules: FleetRules) -> FleetBench:
    facts, labels = {"env": "prod"}, {"role": "web"}
    await enrol(make_agents(store), store, "web-1", facts=facts, labels=labels)
    return FleetBench(store, rules)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("rules", "command_type"), [(PROD, "exec"), (NOT_PROD, "shell")])
async def test_a_rule_about_facts_is_asked(
    store: Store, rules: FleetRules, command_type: str, way: str
) -> None:
    fleet = await site(store, rules)
    made = await fleet.create(command_type=command_type, command="reboot", **WAYS[way])
    job = await fleet.plan(made.job.id)
    assert job.approval_state is ApprovalState.WAIT_APPROVAL


@pytest.mark.parametrize("way", WAYS)
async def test_a_block_about_facts_is_named_and_counts(store: Store, way: str) -> None:
    fleet = await site(store, FleetRules())
    await Blocks(store).add(PROJECT, NewBlock(selector="fact.env=prod", reason="freeze"), BY)
    made = await fleet.create(command_type="exec", command="reboot", **WAYS[way])
    await fleet.plan(made.job.id)
    assert [excluded.host for excluded in made.excluded] == ["web-1"]
    assert await fleet.outcomes(made.job.id) == {"blocked": 1}


@pytest.mark.parametrize("way", WAYS)
async def test_a_block_about_a_group_by_facts_counts(store: Store, way: str) -> None:
    fleet = await site(store, FleetRules())
    await Groups(store).add(PROJECT, "prod", "fact.env=prod", BY)
    made = await fleet.create(command_type="noop", **WAYS[way])
    await Blocks(store).add(PROJECT, NewBlock(selector="@prod", reason="freeze"), BY)
    await fleet.plan(made.job.id)
    assert await fleet.outcomes(made.job.id) == {"blocked": 1}


async def test_facts_are_not_read_unless_a_rule_asks_for_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be most of what the store has of hosts."""
    fleet = await site(store, FleetRules())
    await Blocks(store).add(PROJECT, NewBlock(selector="role=db", reason="freeze"), BY)
    counted = Counted(store, monkeypatch)
    made = await fleet.create(selector="role=web")
    await fleet.plan(made.job.id)
    assert await fleet.statuses(made.job.id) == {"queued": 1}
    read = {name for name in counted.names if name.startswith("holdfast.fleet:") and "host" in name}
    assert read == {
        "holdfast.fleet:hosts_without_facts",
        "holdfast.fleet:get_hosts_without_facts",
    }


async def test_a_rule_about_a_group_that_the_project_has_not_is_about_all_hosts(
    store: Store,
) -> None:
    """Rules are settings of the server, groups belong to projects and can be removed."""
    about = ApprovalRule(name="prod", match=ApprovalMatch(selector="@prod"))
    fleet = FleetBench(store, FleetRules(approval_rules=(about,), approval_default="none"))
    names = await fleet.add_hosts(2)
    waits = (await fleet.create(names, command_type="restart", command="nginx")).job
    assert waits.approval_state is ApprovalState.WAIT_APPROVAL
    await Groups(store).add(PROJECT, "prod", "name~db-*", BY)
    exempt = (await fleet.create(names, command_type="restart", command="nginx")).job
    assert exempt.approval_state is ApprovalState.NOT_REQUIRED
    await Groups(store).remove(PROJECT, "prod", BY)
    await Blocks(store).add(PROJECT, NewBlock(host=names[0], reason="r", effect="hold"), BY)
    planned = await fleet.plan(exempt.id)
    assert planned.approval_state is ApprovalState.WAIT_APPROVAL


async def test_a_rule_of_no_vote_about_a_missing_group_exempts_no_host(store: Store) -> None:
    about = ApprovalRule(name="free", match=ApprovalMatch(selector="@free"), auto=True)
    fleet = FleetBench(store, FleetRules(approval_rules=(about,)))
    names = await fleet.add_hosts(2)
    made = (await fleet.create(names, command_type="shell", command="true")).job
    assert made.approval_state is ApprovalState.WAIT_APPROVAL
