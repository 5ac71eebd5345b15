"""Break-glass: its bounds, and the review of its use."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import (
    ApprovalNeeded,
    CommandRefused,
    SelfApproval,
)
from holdfast.core.fleet.approvals.break_glass import break_glass, reviewed
from holdfast.core.fleet.model import ApprovalState
from holdfast.errors import (
    HoldfastError,
    IllegalTransition,
    InvalidInput,
)
from tests.unit.core.fleet.approval_support import NOW


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
