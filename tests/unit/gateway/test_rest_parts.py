"""Parts of the REST transport that need no server: paths, depth of JSON, merge patches, rates."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from holdfast.core.errors import Malformed, RateLimited
from holdfast.core.merge_patch import merge_patch
from holdfast.gateway.auth.rate import BUCKETS_MAX, RateLimit
from holdfast.gateway.rest.body import check_depth
from holdfast.gateway.rest.route import Match, Routes
from holdfast.gateway.rest.v1 import ROUTES

ROUTER = Routes(ROUTES)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_path_value_may_hold_any_text(value: str) -> None:
    match = ROUTER.find("GET", f"/tasks/{quote(value, safe='')}/why")
    assert isinstance(match, Match)
    assert (match.route.path, match.values) == ("/tasks/{task_id}/why", (value,))


def test_a_fixed_segment_goes_first() -> None:
    match = ROUTER.find("GET", "/audit/verify")
    assert isinstance(match, Match)
    assert match.route.path == "/audit/verify"
    assert ROUTER.find("PUT", "/tasks/batch") == ["POST", "GET", "PATCH"]
    assert ROUTER.find("GET", "/tasks//why") == []


@given(value=JSON)
def test_depth_is_counted_as_json_nests(value: Any) -> None:
    data = json.dumps(value).encode()
    for most in range(6):
        if depth(value) > most:
            with pytest.raises(Malformed):
                check_depth(data, most)
        else:
            check_depth(data, most)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    elif not isinstance(value, list):
        return 0
    return 1 + max(map(depth, value), default=0)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_is_that_of_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(gaps=st.lists(st.floats(0, 5), max_size=60))
def test_a_bucket_never_lets_more_through_than_it_holds(gaps: list[float]) -> None:
    limit, now, passed, waits = RateLimit(2.0, 3), 0.0, list[float](), list[float]()
    for gap in gaps:
        now += gap
        try:
            limit.take("a", now)
            passed.append(now)
        except RateLimited as error:
            waits.append(error.retry_after_seconds)
            limit.take(f"b{len(waits)}", now)  # other keys are not concerned
        for start in passed:
            within = [at for at in passed if start <= at <= now]
            assert len(within) <= 3 + 2.0 * (now - start) + 1e-6 + 1
    assert not gaps or passed
    assert all(0 < wait <= 0.5 for wait in waits)


def test_buckets_are_bounded() -> None:
    limit = RateLimit(1.0, 2)
    for n in range(BUCKETS_MAX + 10):
        limit.take(str(n), n * 1e-6)
    assert len(limit._buckets) <= BUCKETS_MAX
