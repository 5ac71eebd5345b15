"""From the request of a job to its spec: defaults, typed errors for each bad value, argv, hash and digest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.errors import (
    BadSelector,
    CommandRefused,
    EmptySelection,
    TooLarge,
    UnknownCommandType,
)
from holdfast.core.fleet.commands.command_type import HOSTS_MAX, OnRestart, command_types
from holdfast.core.fleet.commands.secrets import SecretRef, versions
from holdfast.core.fleet.jobs.fields import COMMAND_BYTES_MAX
from holdfast.core.fleet.jobs.request import JobRequest, request_hash
from holdfast.core.fleet.jobs.spec import (
    ARGV_MAX,
    JobSpec,
    argv_of,
    check_request,
    check_targets,
    digest_of,
    probe_of,
    read_spec,
    stored,
)
from holdfast.core.fleet.model import Block, BlockEffect
from holdfast.core.fleet.rollout.policy import PLAIN
from holdfast.core.fleet.rules import RULES, FleetRules
from holdfast.core.task import Priority
from holdfast.errors import (
    BatchTooLarge,
    HoldfastError,
    InvalidInput,
    PayloadTooLarge,
    UnknownPriority,
    UnserialisablePayload,
)

TYPES = command_types(
    {
        "deploy": {
            "argv": ["deploy", "{args.version}", "{command}"],
            "env": ["LANG", "APP_*"],
            "probe": ["deployed", "{args.version}"],
            "max_hosts": 3,
            "timeout_seconds": 30,
            "grace_seconds": 2,
        },
        "fixed": {"argv": ["uptime"], "idempotent": True, "on_restart": "rerun"},
    }
)
DEPLOY: dict[str, Any] = {
    "command_type": "deploy",
    "command": "web now",
    "args": {"version": "1.2"},
    "hosts": ["a", "b"],
}


def request(**fields: object) -> JobRequest:
    """As a gateway reads it."""
    body = {"command_type": "exec", "command": "true", "hosts": ["a"]} | fields
    return msgspec.convert(
        {key: value for key, value in body.items() if value is not ...}, JobRequest
    )


def spec(**fields: object) -> JobSpec:
    return check_request(request(**fields), TYPES, RULES)


def test_a_small_request_has_the_defaults_of_type_and_settings() -> None:
    made = spec(command="systemctl restart 'a b'", hosts=["web-1", "web-2", "web-1"])
    assert argv_of(made) == ("systemctl", "restart", "a b")
    assert made.hosts == ("web-1", "web-2")
    assert (made.project, made.priority, made.external_id) == ("default", Priority.NORMAL, None)
    assert (made.exec_timeout_seconds, made.grace_seconds) == (60.0, 10.0)
    assert (made.max_retries, made.idempotent) == (0, False)
    assert made.on_restart is OnRestart.REPORT_UNKNOWN
    assert made.not_after_seconds == 3_600.0
    assert replace(made.rollout, seed=0) == replace(PLAIN, max_in_flight=50)


def test_settings_and_type_give_what_the_request_leaves_out() -> None:
    rules = FleetRules(
        exec_timeout_seconds=7, grace_seconds=1, not_after_seconds=9, exec_max_retries=5,
        base_backoff_seconds=2, max_backoff_seconds=4, max_in_flight=8,
    )  # fmt: skip
    made = check_request(request(command_type="fixed", command=...), TYPES, rules)
    assert (made.exec_timeout_seconds, made.grace_seconds, made.not_after_seconds) == (7, 1, 9)
    assert (made.max_retries, made.base_seconds, made.cap_seconds) == (5, 2, 4)
    assert made.rollout.max_in_flight == 8
    assert made.on_restart is OnRestart.RERUN
    of_type = check_request(request(**DEPLOY), TYPES, rules)
    assert (of_type.exec_timeout_seconds, of_type.grace_seconds) == (30, 2)


def test_a_full_request_keeps_its_values() -> None:
    made = spec(
        **DEPLOY,
        external_id="deploy-42",
        project="shop",
        env={"LANG": "C", "APP_X": "1"},
        secrets={"APP_KEY": {"name": "shop/key", "version": 3}},
        rollout={"waves": [1, "5%", "rest"], "max_in_flight": 5, "budget": {"failed": "2%"}},
        retry={"max_retries": 2, "base_seconds": 0.5, "cap_seconds": 9},
        idempotent=True,
        on_restart="probe",
        priority="high",
        exec_timeout_seconds=12,
        not_after_seconds=60,
        reason="change 118",
        metadata={"ticket": 118},
        dry_run=True,
        parent_job_id="job_1",
    )
    assert argv_of(made) == ("deploy", "1.2", "web", "now")
    assert probe_of(made) == ("deployed", "1.2")
    assert made.secrets == {"APP_KEY": SecretRef("shop/key", 3)}
    assert made.rollout.waves == (1, "5%", "rest")
    assert (made.max_retries, made.base_seconds, made.cap_seconds) == (2, 0.5, 9.0)
    assert made.priority is Priority.HIGH
    assert made.dry_run
    back = read_spec(stored(made))
    assert back == replace(made, hosts=None)


def test_a_spec_is_stored_without_its_hosts() -> None:
    made = spec(hosts=[f"host-{n}" for n in range(1_000)])
    assert len(stored(made)) < 2_000
    assert read_spec(stored(spec(hosts=..., selector="role=web"))).selector == "role=web"


@pytest.mark.parametrize(
    ("fields", "argv"),
    [
        ({"command_type": "noop"}, ()),
        ({"command_type": "noop", "command": ...}, ()),
        ({"command_type": "ping", "command": ...}, ("ping",)),
        ({"command_type": "restart", "command": "nginx"}, ("systemctl", "restart", "nginx")),
        ({"command_type": "shell", "command": "a | b > c"}, ("a | b > c",)),
        ({"command_type": "exec", "command": "ls -l /"}, ("ls", "-l", "/")),
        ({**DEPLOY, "args": {"version": 7}}, ("deploy", "7", "web", "now")),
        ({**DEPLOY, "args": {"version": True}}, ("deploy", "true", "web", "now")),
        ({**DEPLOY, "args": {"version": ["a b", 1.5]}}, ("deploy", "a b", "1.5", "web", "now")),
    ],
)
def test_argv(fields: dict[str, object], argv: tuple[str, ...]) -> None:
    assert argv_of(spec(**fields)) == argv


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (
            {"command_type": "nope"},
            UnknownCommandType,
            "use one of deploy, exec, facts, fixed, noop",
        ),
        ({"hosts": []}, EmptySelection, "hosts is empty"),
        ({"hosts": ...}, InvalidInput, "either hosts or selector"),
        ({"selector": "*"}, InvalidInput, "either hosts or selector"),
        ({"hosts": [""]}, InvalidInput, r"hosts\[0\]"),
        ({"hosts": ["a", "@b"]}, InvalidInput, r"hosts\[1\]"),
        ({"hosts": ["a\n"]}, InvalidInput, r"hosts\[0\]"),
        ({"hosts": [f"h{n}" for n in range(HOSTS_MAX + 1)]}, BatchTooLarge, "the limit is 50000"),
        ({"hosts": ..., "selector": "a b"}, BadSelector, "column 3"),
        ({"hosts": ..., "selector": ""}, BadSelector, "column 1"),
        ({"command": ""}, InvalidInput, "command is empty"),
        ({"command": "  "}, InvalidInput, "command is empty"),
        ({"command": "'a"}, InvalidInput, "closing quote"),
        ({"command": "a | b"}, InvalidInput, "needs a shell"),
        ({"command": "a\0"}, InvalidInput, "NUL"),
        ({"command": "''"}, InvalidInput, "empty first word"),
        ({"command": "a" * (COMMAND_BYTES_MAX + 1)}, TooLarge, "command has 65537 bytes"),
        ({"command": "é" * (COMMAND_BYTES_MAX // 2 + 1)}, TooLarge, "command has 65538 bytes"),
        ({"command": "a " * (ARGV_MAX + 1)}, TooLarge, "257 words, the limit is 256"),
        ({"command": "\ud800"}, UnserialisablePayload, "as JSON"),
        ({"command_type": "ping"}, InvalidInput, "ping takes none"),
        ({"command_type": "fixed"}, InvalidInput, "fixed takes none"),
        ({"command_type": "restart", "command": "--root=/x nginx"}, CommandRefused, "no options"),
        ({**DEPLOY, "args": {}}, InvalidInput, r"args\.version is missing"),
        ({**DEPLOY, "args": {"version": "1", "x": 1}}, InvalidInput, r"args\.x is not an argument"),
        ({"args": {"x": 1}}, InvalidInput, "it has none"),
        ({**DEPLOY, "args": {"version": None}}, InvalidInput, r"args\.version is None"),
        ({**DEPLOY, "args": {"version": {"a": 1}}}, InvalidInput, r"args\.version"),
        ({**DEPLOY, "args": {"version": "-rf"}}, CommandRefused, "no options"),
        ({**DEPLOY, "args": {"version": "a\0"}}, InvalidInput, "NUL"),
        ({**DEPLOY, "args": {"version": "x" * 70_000}}, PayloadTooLarge, "args"),
        ({**DEPLOY, "env": {"PATH": "/x"}}, CommandRefused, "does not let a job set PATH"),
        ({"env": {"A": "b"}}, CommandRefused, "its env has none"),
        ({**DEPLOY, "env": {"A=B": "b"}}, InvalidInput, "letters, digits and _"),
        ({**DEPLOY, "env": {"LANG": "x\0"}}, InvalidInput, r"env\.LANG has a NUL"),
        ({**DEPLOY, "env": {"LANG": "x" * 16_384}}, TooLarge, "env has 16390 bytes"),
        ({**DEPLOY, "secrets": {"PATH": {"name": "x"}}}, CommandRefused, "PATH"),
        ({**DEPLOY, "secrets": {"LANG": {"name": ""}}}, InvalidInput, r"secrets\.LANG\.name"),
        (
            {**DEPLOY, "secrets": {"LANG": {"name": "x", "version": 0}}},
            InvalidInput,
            r"secrets\.LANG\.version",
        ),
        (
            {**DEPLOY, "env": {"LANG": "C"}, "secrets": {"LANG": {"name": "x"}}},
            InvalidInput,
            "in env too",
        ),
        (
            {**DEPLOY, "secrets": {f"APP_{n}": {"name": "x"} for n in range(51)}},
            InvalidInput,
            "at most 50",
        ),
        ({"rollout": {"waves": [0]}}, InvalidInput, r"waves\[0\]"),
        ({"rollout": {"max_in_flight": "x"}}, InvalidInput, "max_in_flight"),
        ({"retry": {"max_retries": 1}}, InvalidInput, "only a command that is idempotent"),
        ({"retry": {"max_retries": -1}}, InvalidInput, r"retry\.max_retries"),
        ({"retry": {"base_seconds": -1}}, InvalidInput, r"retry\.base_seconds"),
        ({"retry": {"base_seconds": 5, "cap_seconds": 1}}, InvalidInput, r"retry\.cap_seconds"),
        ({"on_restart": "rerun"}, InvalidInput, "only an idempotent command"),
        ({"on_restart": "probe"}, InvalidInput, "has no probe"),
        ({"priority": "urgent"}, UnknownPriority, "urgent"),
        ({"project": "A"}, InvalidInput, "project"),
        ({"project": "all"}, InvalidInput, "reserved"),
        ({"external_id": ""}, InvalidInput, "external_id"),
        ({"external_id": "a/b"}, InvalidInput, "external_id"),
        ({"external_id": "a" * 201}, InvalidInput, "external_id"),
        ({"exec_timeout_seconds": 0}, InvalidInput, "exec_timeout_seconds"),
        ({"exec_timeout_seconds": 1e6}, InvalidInput, "exec_timeout_seconds"),
        ({"not_after_seconds": 0}, InvalidInput, "not_after_seconds"),
        ({"not_after_seconds": 1e9}, InvalidInput, "not_after_seconds"),
        ({"reason": "x" * 2_001}, InvalidInput, "reason"),
        ({"metadata": {"x": "y" * 16_384}}, PayloadTooLarge, "metadata"),
        ({"metadata": {"x": float("nan")}}, UnserialisablePayload, "as JSON"),
        ({"parent_job_id": "@x"}, InvalidInput, "parent_job_id"),
    ],
)
def test_a_bad_value_is_a_typed_error(
    fields: dict[str, object], error: type[HoldfastError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        spec(**fields)
    assert type(caught.value) is error


@pytest.mark.parametrize("field", ["hostz", "timeout"])
def test_an_unknown_field_is_refused(field: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=field):
        request(**{field: 1})


def test_a_type_bounds_its_hosts() -> None:
    made = spec(**DEPLOY)
    check_targets(made, 3)
    with pytest.raises(CommandRefused, match="4 hosts; command type deploy allows 3"):
        check_targets(made, 4)
    with pytest.raises(EmptySelection):
        check_targets(made, 0)
    check_targets(spec(), HOSTS_MAX)
    with pytest.raises(BatchTooLarge):
        check_targets(spec(), HOSTS_MAX + 1)


def test_a_job_that_is_not_idempotent_does_not_rerun() -> None:
    made = spec(command_type="fixed", command=..., idempotent=False)
    assert (made.on_restart, made.max_retries) == (OnRestart.REPORT_UNKNOWN, 0)
    assert spec(idempotent=True).max_retries == 3
    assert spec(idempotent=True, on_restart="rerun").on_restart is OnRestart.RERUN


# -- the hash of the request ---------------------------------------------------------------------------

OTHERS: dict[str, object] = {
    "command_type": "shell",
    "command": "false",
    "hosts": ["a", "c"],
    "external_id": "x",
    "project": "shop",
    "args": {"a": 1},
    "env": {"A": "1"},
    "secrets": {"A": {"name": "x"}},
    "rollout": {},
    "retry": {"max_retries": 1},
    "idempotent": False,
    "on_restart": "rerun",
    "priority": "low",
    "exec_timeout_seconds": 60,
    "not_after_seconds": 3600,
    "reason": "why",
    "metadata": {"a": None},
    "parent_job_id": "job_1",
}


def test_every_field_changes_the_hash() -> None:
    assert {*OTHERS, "selector", "dry_run"} == set(JobRequest.__struct_fields__)
    hashes = {request_hash(request(**{field: value})) for field, value in OTHERS.items()}
    hashes |= {request_hash(request()), request_hash(request(hosts=..., selector="a"))}
    assert len(hashes) == len(OTHERS) + 2
    assert request_hash(request(dry_run=True)) == request_hash(request())


@given(st.lists(st.sampled_from("abcdef"), min_size=1), st.randoms(use_true_random=False))
def test_order_and_repeats_of_hosts_do_not_change_the_hash(hosts: list[str], order: Any) -> None:
    shuffled = [*hosts, hosts[0]]
    order.shuffle(shuffled)
    assert request_hash(request(hosts=shuffled)) == request_hash(request(hosts=hosts))


def test_the_same_priority_by_name_and_number_is_the_same_request() -> None:
    assert request_hash(request(priority=1)) == request_hash(request(priority="HIGH"))


# -- the digest ----------------------------------------------------------------------------------------

BLOCK = Block(
    id="blk_1", project="default", host_id="hst_1", command_type="*", reason="disk", owner="user:ann",
    created_at=1.0,
)  # fmt: skip
BASE = check_request(
    request(**DEPLOY, secrets={"APP_KEY": {"name": "key", "version": 1}}), TYPES, RULES
)


def digest(
    made: JobSpec = BASE,
    *,
    type_name: str = "deploy",
    targets: tuple[str, ...] = ("hst_1", "hst_2"),
    blocks: tuple[Block, ...] = (BLOCK,),
    found: dict[str, list[int]] | None = None,
    driven: tuple[tuple[str, str, str], ...] = (),
) -> str:
    secret_versions = versions(made.secrets) if found is None else found
    return digest_of(made, TYPES[type_name], targets, blocks, secret_versions, driven=driven)


def test_the_digest_is_a_marked_sha256() -> None:
    mark, _, text = digest().partition(":")
    assert (mark, len(text), int(text, 16) > 0) == ("d1", 64, True)


CHANGES: dict[str, object] = {
    "command_type": "other",
    "command": "web later",
    "args": {"version": "1.3"},
    "env": {"LANG": "C"},
    "secrets": {"APP_KEY": SecretRef("key", 2)},
    "rollout": replace(BASE.rollout, max_in_flight=51),
    "max_retries": 1,
    "base_seconds": 1.5,
    "cap_seconds": 61.0,
    "idempotent": True,
    "on_restart": OnRestart.PROBE,
    "exec_timeout_seconds": 31.0,
    "grace_seconds": 3.0,
    "not_after_seconds": 3_601.0,
}
NOT_DECIDED = {
    "project", "external_id", "definition", "hosts", "selector", "priority", "reason", "metadata",
    "parent_job_id", "dry_run", "request_hash",
}  # fmt: skip
"""Fields that an approval is not bound to. `definition`: the one that counts now is given beside the spec."""


def test_every_field_is_bound_or_named_here() -> None:
    assert set(CHANGES) | NOT_DECIDED == set(JobSpec.__struct_fields__)


@given(st.sets(st.sampled_from(sorted(CHANGES)), min_size=1))
def test_any_change_of_the_spec_changes_the_digest(fields: set[str]) -> None:
    assert digest(replace(BASE, **{field: CHANGES[field] for field in fields})) != digest()


@pytest.mark.parametrize("field", Block.__struct_fields__)
def test_any_change_of_a_block_changes_the_digest(field: str) -> None:
    value: object = BlockEffect.HOLD if field == "effect" else "other"
    if field in ("expires_at", "lifted_at", "created_at", "version"):
        value = 99
    assert digest(blocks=(replace(BLOCK, **{field: value}),)) != digest()


def test_any_change_of_the_rest_changes_the_digest() -> None:
    found = {
        digest(),
        digest(type_name="exec"),
        digest(targets=("hst_1",)),
        digest(targets=("hst_1", "hst_3")),
        digest(blocks=()),
        digest(blocks=(BLOCK, replace(BLOCK, id="blk_2"))),
        digest(found={"key": [2]}),
        digest(found={"other": [1]}),
        digest(found={}),
        digest(driven=(("hst_1", "ssh", "a"),)),
        digest(driven=(("hst_1", "ssh", "b"),)),
        digest(driven=(("hst_1", "simulated", "a"),)),
    }
    assert len(found) == 12


@given(st.permutations(["hst_1", "hst_2", "hst_3"]), st.permutations(["blk_1", "blk_2", "blk_3"]))
def test_order_does_not_change_the_digest(targets: list[str], blocks: list[str]) -> None:
    made = [replace(BLOCK, id=name) for name in blocks]
    reference = [replace(BLOCK, id=name) for name in sorted(blocks)]
    assert digest(targets=(*targets, targets[0]), blocks=tuple(made)) == digest(
        targets=("hst_1", "hst_2", "hst_3"), blocks=tuple(reference)
    )


def test_a_spec_that_was_stored_has_the_same_digest() -> None:
    assert digest(read_spec(stored(BASE))) == digest()
