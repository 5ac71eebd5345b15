"""The pages about rollouts, approvals, blocks and statuses say what the code does."""

from __future__ import annotations

import re

import msgspec

from holdfast.core.fleet.approvals.rules import ApprovalMatch, ApprovalRule, VoterGroup
from holdfast.core.fleet.blocks.window import PARTS, BlockWindow, check_window, read_window
from holdfast.core.fleet.model import JOB_ENDED, Block
from holdfast.core.fleet.rollout.policy import BUDGETS, RolloutRequest, policy_of
from holdfast.core.fleet.status import KINDS
from tests.pages import page


def rows(name: str) -> dict[str, list[str]]:
    """The rows of all tables of a page, by the names in their first cell."""
    found: dict[str, list[str]] = {}
    for line in page(name).splitlines():
        if line.startswith("| `"):
            first, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), cells)
    return found


def test_the_fields_and_defaults_of_a_rollout() -> None:
    table = rows("rollouts.md")
    policy = msgspec.to_builtins(policy_of(RolloutRequest()))
    for field in RolloutRequest.__struct_fields__:
        assert field in table
        if field not in ("seed", "budget"):
            shown = re.findall(r"`(.+?)`", table[field][0])[0]
            value = policy[field]
            assert shown == (value if isinstance(value, str) else _json(value))
    for name, amount in BUDGETS.items():
        assert table[name][0] == f"`{amount}`"
    assert {status.value for status in JOB_ENDED} <= set(table)


def _json(value: object) -> str:
    if isinstance(value, float):
        value = int(value)
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def test_the_fields_and_defaults_of_a_rule() -> None:
    table = rows("approvals.md")
    matches = {f"match.{field}" for field in ApprovalMatch.__struct_fields__}
    assert matches | set(ApprovalRule.__struct_fields__) - {"name", "match"} == set(table)
    assert VoterGroup().from_ == ("role:approver", "role:admin")
    assert table["expires_seconds"][0] == f"`{ApprovalRule().expires_seconds:.0f}`"


def test_the_parts_and_the_example_of_a_window() -> None:
    table = rows("blocks.md")
    assert set(PARTS) <= set(table)
    example = re.findall(r"^    (\{.*\})$", page("blocks.md"), re.MULTILINE)
    assert len(example) == 1
    check_window(read_window(example[0]))
    fields = {"effect", "on_running", "on_lift", "window", "expires_at", "command_type"}
    assert fields <= set(table) & set(Block.__struct_fields__) | {"window"}
    assert BlockWindow.__struct_fields__ == ("rrule", "duration_seconds", "timezone")


def test_the_table_of_statuses_is_that_of_the_code() -> None:
    table = rows("executions.md")
    assert set(table) == set(KINDS)
    for kind, row in KINDS.items():
        status, bucket, reason = table[kind]
        assert status == row.status.value
        assert bucket == (row.bucket.value if row.bucket else "-")
        assert reason == row.reason
