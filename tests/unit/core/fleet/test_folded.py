"""Equal outputs of hosts are shown once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.hosts.names import unfold
from holdfast.core.fleet.jobs.folded import GROUPS_MAX, FoldedOutput, HostOutput, fold_outputs
from holdfast.errors import InvalidInput

outputs = st.lists(
    st.builds(
        lambda number, sha256: HostOutput(f"h{number}", sha256, len(sha256 or "")),
        st.integers(0, 60),
        st.sampled_from([None, "a", "bb", "ccc", "dddd"]),
    )
)


@given(outputs, st.integers(1, 5))
def test_each_host_is_in_one_group_or_missing(drawn: list[HostOutput], limit: int) -> None:
    last = {output.host: output.sha256 for output in drawn}
    folded = fold_outputs(drawn, GROUPS_MAX)
    shown = {host: group.sha256 for group in folded.groups for host in unfold(group.hosts)}
    missing = unfold(folded.missing)
    assert shown == {host: sha256 for host, sha256 in last.items() if sha256 is not None}
    assert set(missing) == {host for host, sha256 in last.items() if sha256 is None}
    assert folded.missing_count == len(missing)
    assert sum(group.count for group in folded.groups) + len(missing) == len(last)
    counts = Counter(shown.values())
    assert [group.count for group in folded.groups] == sorted(counts.values(), reverse=True)
    assert folded.differing == len(shown) - max(counts.values(), default=0)
    for group in folded.groups:
        assert (group.count, group.bytes) == (counts[group.sha256], len(group.sha256))
        assert group.first == min(unfold(group.hosts))
    cut = fold_outputs(reversed(list(last_of(drawn))), limit)
    assert cut.groups == folded.groups[:limit]
    assert cut.more_groups == max(0, len(folded.groups) - limit)
    assert cut.differing == folded.differing


def last_of(drawn: list[HostOutput]) -> list[HostOutput]:
    return list({output.host: output for output in drawn}.values())


def test_a_thousand_equal_outputs_are_one_line() -> None:
    given_outputs = [HostOutput(f"web-{n:04d}", "x" if n != 7 else "y", 5) for n in range(1_000)]
    folded = fold_outputs([*given_outputs, HostOutput("db-1")])
    assert [(group.hosts, group.count) for group in folded.groups] == [
        ("web-[0000-0006,0008-0999]", 999),
        ("web-0007", 1),
    ]
    assert (folded.missing, folded.missing_count, folded.differing) == ("db-1", 1, 1)


def test_no_output_and_a_wrong_limit() -> None:
    assert fold_outputs([]) == FoldedOutput(groups=())
    with pytest.raises(InvalidInput, match="limit"):
        fold_outputs([], 0)
