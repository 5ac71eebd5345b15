"""Which approval a job needs: rules in order, the first that matches counts.

Promises: a job that no rule matches needs an approval, unless the settings say otherwise; a rule that
approves by itself matches only if all hosts of the job are in its selector; a name of a rule that does not
exist leads to the default rule, never to none. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from holdfast.core.check import check_name, check_number, check_positive, check_whole, shown
from holdfast.core.errors import BadSelector
from holdfast.core.fleet.hosts.selector import HostIndex
from holdfast.core.fleet.hosts.selector_parse import Selector, glob_pattern, parse
from holdfast.core.fleet.model import Host
from holdfast.core.fleet.rollout.policy import HOSTS_MAX
from holdfast.errors import BadConfig

REQUIRED: Final = "required"
"""As the default: an approval where no rule matches."""
NO_APPROVAL: Final = "none"
"""As the rule of a command type: no approval. As the default: no approval where no rule matches."""
VOTERS_MAX: Final = 50
"""Votes that one group asks for."""
GROUPS_MAX: Final = 20
EXPIRES_SECONDS_MAX: Final = 30 * 86_400.0
KINDS: Final = ("role:", "user:")
"""Who may vote. Principals have no groups yet: no principal could approve a rule that asks for one."""


class ApprovalMatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs a rule is for. What is missing matches all."""

    command_type: str = "*"
    """A glob over names of command types."""
    selector: str | None = None
    """The rule is for jobs with a host in it; a rule with `auto`, for jobs with all hosts in it."""
    min_hosts: int = 0
    """The rule is for jobs with at least this number of hosts (of those in the selector)."""
    share: float = 0.0
    """The same as a share of all hosts of the project, from 0 to 1."""


class VoterGroup(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"from_": "from"},
):
    """Votes of these people are needed."""

    count: int = 1
    from_: tuple[str, ...] = ("role:approver", "role:admin")
    """`role:NAME` or `user:NAME`: a member of any of them counts."""


class ApprovalRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job needs before it starts. Every group has to be satisfied; a person counts for one group."""

    name: str = ""
    match: ApprovalMatch = ApprovalMatch()
    all_of: tuple[VoterGroup, ...] = (VoterGroup(),)
    deny: int = 1
    """This number of rejections ends the request."""
    expires_seconds: float = 3_600.0
    auto: bool = False
    """Jobs that match need no vote."""


class NotRequired(msgspec.Struct, frozen=True):
    """The job needs no approval."""

    reason: str


DEFAULT_RULE: Final = ApprovalRule(name="default")
"""Where no rule matches: one approver."""
Matching: TypeAlias = Callable[[str], int | None]
"""How many hosts of the job a selector has. None: the project has no group of a name in it."""


def matching_in(hosts: Sequence[Host], groups: Mapping[str, Selector]) -> Matching:
    """Counts the hosts of a job."""
    index = HostIndex(hosts, groups)

    def count(text: str) -> int | None:
        try:
            return len(index.select(parse(text)))
        except BadSelector:
            return None

    return count


def rule_for(
    rules: Sequence[ApprovalRule],
    command_type: str,
    hosts: int,
    total: int,
    *,
    matching: Matching,
    named: str | None = None,
    above: int = 0,
    default: str = REQUIRED,
) -> ApprovalRule | NotRequired:
    """The rule for a job of `hosts` of the `total` hosts of its project. `named` is the rule that the command
    type names. `above`: where no rule matches, a job of up to this number of hosts needs no approval."""
    if named == NO_APPROVAL:
        return NotRequired(f"jobs of the type {command_type} need no approval")
    if named is not None:
        return _applied(next((rule for rule in rules if rule.name == named), DEFAULT_RULE))
    for rule in rules:
        if _is_match(rule, command_type, hosts, total, matching):
            return _applied(rule)
    if default == NO_APPROVAL:
        return NotRequired("no rule asks for an approval")
    if 0 < hosts <= above:
        return NotRequired(f"jobs of up to {above} hosts of the type {command_type} need none")
    return DEFAULT_RULE


def _applied(rule: ApprovalRule) -> ApprovalRule | NotRequired:
    return NotRequired(f"approved by the rule {rule.name!r}") if rule.auto else rule


def _is_match(
    rule: ApprovalRule, command_type: str, hosts: int, total: int, matching: Matching
) -> bool:
    match = rule.match
    if not glob_pattern(match.command_type).fullmatch(command_type):
        return False
    found = hosts if match.selector is None else matching(match.selector)
    if found is None:
        # It cannot be judged: the hosts count as protected, and none as exempt.
        found = 0 if rule.auto else hosts
    if found < hosts and rule.auto:
        return False
    if match.selector is not None and not found:
        return False
    return found >= match.min_hosts and found >= match.share * total


def check_rules(rules: Sequence[ApprovalRule]) -> None:
    """BadConfig names the rule and the field."""
    for at, rule in enumerate(rules):
        where = f"fleet.approval_rules[{at}]"
        match = rule.match
        check_name(f"{where}.match.command_type", match.command_type, wrong=BadConfig)
        if match.selector is not None:
            parse(match.selector)
        check_whole(
            f"{where}.match.min_hosts", match.min_hosts, least=0, most=HOSTS_MAX, wrong=BadConfig
        )
        check_number(f"{where}.match.share", match.share, most=1.0, wrong=BadConfig)
        check_whole(f"{where}.deny", rule.deny, least=1, most=VOTERS_MAX, wrong=BadConfig)
        check_positive(
            f"{where}.expires_seconds",
            rule.expires_seconds,
            most=EXPIRES_SECONDS_MAX,
            wrong=BadConfig,
        )
        if not rule.auto and not 0 < len(rule.all_of) <= GROUPS_MAX:
            raise BadConfig(f"{where}.all_of has {len(rule.all_of)} groups: give 1 to {GROUPS_MAX}")
        for group in rule.all_of:
            _check_group(where, group)


def _check_group(where: str, group: VoterGroup) -> None:
    check_whole(f"{where}.all_of.count", group.count, least=1, most=VOTERS_MAX, wrong=BadConfig)
    for member in group.from_:
        if not member.startswith(KINDS):
            raise BadConfig(
                f"{where}.all_of.from has {shown(member)}: write role:NAME or user:NAME"
            )
    if not group.from_:
        raise BadConfig(f"{where}.all_of.from is empty: no vote could count")
