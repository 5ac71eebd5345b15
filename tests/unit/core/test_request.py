"""The hash of a request: every field counts, or is excluded for a stated reason."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import fields, replace

from holdfast.core import request as requests
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.limit import LimitRule
from holdfast.core.request import NOT_HASHED, EnqueueRequest
from holdfast.core.submit import submit
from holdfast.core.task import Priority, TaskOptions
from holdfast.core.unique import Unique
from holdfast.tracing import TraceContext

RULES: Final = (("limit", LimitRule(max_running=1)),)
OTHER_VALUES: Final[dict[str, Any]] = {
    "type": "other",
    "payload": {"n": 2},
    "queue": "other",
    "project": "other",
    "priority": "high",
    "max_attempts": 7,
    "delay_seconds": 1.5,
    "run_at": 5.0,
    "unique": Unique(until="ended"),
    "metadata": {"by": "ann"},
    "tags": ("vip",),
    "type_tags": ("mail",),
    "keep_done_seconds": 60.0,
    "fair": True,
    "depends_on": (Edge("parent"),),
    "idempotency_key": "another",
    "key": "tenant",
    "progress_timeout_seconds": 5.0,
    "options": TaskOptions(timeout_seconds=5.0),
    "rules": RULES,
    "defaulted": frozenset({"queue"}),
}
OTHER_OPTIONS: Final[dict[str, Any]] = {
    "timeout_seconds": 5.0,
    "retry_base_seconds": 9.0,
    "retry_cap_seconds": 99.0,
    "max_deaths": 9,
    "rules": RULES,
    "pinned": True,
    "lost_after_seconds": 9.0,
    "retry_policy": "spread",
    "trace": TraceContext("00-" + "1f" * 16 + "-" + "2e" * 8 + "-01"),
}
REQUEST: Final = EnqueueRequest(type="work", payload={"n": 1}, idempotency_key="k")


def hash_of(request: EnqueueRequest) -> str | None:
    return submit(request, task_id="t", now=0.0).task.request_hash


def names(kind: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in fields(kind)]


@pytest.mark.parametrize("name", names(EnqueueRequest))
def test_every_field_of_a_request_counts_or_is_excluded(name: str) -> None:
    other = replace(REQUEST, **{name: OTHER_VALUES[name]})
    assert (hash_of(other) == hash_of(REQUEST)) == (name in NOT_HASHED)


@pytest.mark.parametrize("name", names(TaskOptions))
def test_every_option_of_a_request_counts_or_is_excluded(name: str) -> None:
    other = replace(REQUEST, options=replace(REQUEST.options, **{name: OTHER_OPTIONS[name]}))
    assert (hash_of(other) == hash_of(REQUEST)) == (name in NOT_HASHED)


def test_only_fields_are_excluded() -> None:
    assert NOT_HASHED.keys() <= {*names(EnqueueRequest), *names(TaskOptions)}


class WiderOptions(TaskOptions, frozen=True):
    grace_seconds: float = 1.0


class WiderRequest(EnqueueRequest, frozen=True, kw_only=True):
    region: str | None = None


def test_a_new_field_counts_if_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_BLANK_REQUEST", WiderRequest(type=""))
    monkeypatch.setattr(requests, "_BLANK_OPTIONS", WiderOptions())
    wider = WiderRequest(type="work", payload={"n": 1}, idempotency_key="k", options=WiderOptions())
    assert hash_of(wider) == hash_of(REQUEST), "a hash that is stored stays valid"
    others = [
        replace(wider, region="eu"),
        replace(wider, region="us"),
        replace(wider, options=WiderOptions(grace_seconds=2.0)),
    ]
    assert len({hash_of(request) for request in (wider, *others)}) == 4
    assert hash_of(replace(others[0], defaulted=frozenset({"region"}))) == hash_of(wider)


def test_the_hashes_of_stored_tasks_stay_valid() -> None:
    whole = EnqueueRequest(
        type="work",
        payload={"b": 1, "a": [None]},
        queue="mail",
        priority=Priority.HIGH,
        max_attempts=7,
        delay_seconds=3,
        metadata={"by": "ann"},
        depends_on=(Edge("b"), Edge("a", DependencyPolicy.IGNORE)),
        idempotency_key="k",
        key="tenant",
        options=TaskOptions(timeout_seconds=5.0, max_deaths=9),
        rules=RULES,
    )
    left = frozenset({"queue", "priority", "max_attempts", "timeout"})
    assert [hash_of(whole), hash_of(REQUEST), hash_of(replace(whole, defaulted=left))] == [
        "2:584bfe422b58c4091f78e75c",
        "2:ef639c94337f797f292f04a5",
        "2:b871c401a18dd7e149bfa69f",
    ]
