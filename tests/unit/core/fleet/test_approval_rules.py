"""Which rule a job needs: the first that matches, its hosts, its written form."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.fleet.approvals.approval import (
    rule_of,
)
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
from holdfast.core.fleet.model import Host, HostDriver
from holdfast.errors import (
    BadConfig,
)
from tests.unit.core.fleet.approval_support import NOW, request


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
