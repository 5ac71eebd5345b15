"""From the request of a job to what its executions run: checks, defaults, argv and the digest.

Promises: a typed error that names the field for each bad value, before anything is written. A spec has every
value that decides what runs, with the definition of its command type: a change of the settings does not
change a job that exists. The digest changes with each value that an approver decided on, and with nothing
else; the order of hosts does not count.
Never: reads hosts, blocks or secrets. The caller gives them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, priority as priorities
from holdfast.core.check import (
    check_text,
    shown,
)
from holdfast.core.errors import (
    CommandRefused,
    EmptySelection,
    TooLarge,
)
from holdfast.core.fleet.commands.command_type import (
    COMMAND,
    HOSTS_MAX,
    CommandKind,
    CommandType,
    OnRestart,
    filled,
)
from holdfast.core.fleet.commands.secrets import SecretRef
from holdfast.core.fleet.jobs.fields import (
    arg_words,
    args_of,
    check_variables,
    command_of,
    env_of,
    hosts_of,
    metadata_of,
    not_after_of,
    on_restart_of,
    optional_id,
    retry_of,
    secrets_of,
    seed_of,
    selector_of,
    timeout_of,
    type_of,
)
from holdfast.core.fleet.jobs.request import JobRequest, RetryRequest, request_hash
from holdfast.core.fleet.model import Block
from holdfast.core.fleet.rollout.policy import Policy, policy_of
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.words import split_words
from holdfast.core.task import DEFAULT_PROJECT, Priority
from holdfast.core.wire import check_project
from holdfast.errors import BatchTooLarge, InvalidInput

ARGV_MAX: Final = 256
DIGEST_MARK: Final = "d1:"


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request with its defaults."""

    project: str
    external_id: str | None
    command_type: str
    definition: CommandType
    """The command type as it was when the job was made."""
    command: str
    args: dict[str, codec.Json]
    env: dict[str, str]
    secrets: dict[str, SecretRef]
    hosts: tuple[str, ...] | None = None
    """Names or ids as given, each once. `stored` leaves them out: the executions have the targets."""
    selector: str | None = None
    rollout: Policy
    max_retries: int
    base_seconds: float
    cap_seconds: float
    idempotent: bool
    on_restart: OnRestart
    priority: Priority
    exec_timeout_seconds: float
    grace_seconds: float
    not_after_seconds: float
    reason: str = ""
    metadata: dict[str, codec.Json] = {}
    parent_job_id: str | None = None
    dry_run: bool = False
    request_hash: str


_spec_decoder: Final = msgspec.json.Decoder(JobSpec)


def stored(spec: JobSpec) -> str:
    """The spec as its row has it."""
    return codec.dumps(msgspec.to_builtins(replace(spec, hosts=None)))


def read_spec(text: str) -> JobSpec:
    """The spec of a row."""
    return _spec_decoder.decode(text)


def check_request(
    request: JobRequest, types: Mapping[str, CommandType], rules: FleetRules
) -> JobSpec:
    """The spec of the request, or a typed error that names the field."""
    type = type_of(request.command_type, types)
    hash = request_hash(request)
    is_idempotent = type.idempotent if request.idempotent is None else request.idempotent
    retries, base, cap = retry_of(request.retry or RetryRequest(), is_idempotent, rules)
    spec = JobSpec(
        project=check_project(
            "project", DEFAULT_PROJECT if request.project is None else request.project
        ),
        external_id=optional_id("external_id", request.external_id),
        command_type=type.name,
        definition=type,
        command=command_of(request.command, type),
        args=args_of(request.args, type),
        env=env_of(request.env, type),
        secrets=secrets_of(request, type),
        hosts=hosts_of(request),
        selector=selector_of(request),
        rollout=policy_of(request.rollout, seed=seed_of(hash), max_in_flight=rules.max_in_flight),
        max_retries=retries,
        base_seconds=base,
        cap_seconds=cap,
        idempotent=is_idempotent,
        on_restart=on_restart_of(request.on_restart, type, is_idempotent=is_idempotent),
        priority=priorities.parse(request.priority),
        exec_timeout_seconds=timeout_of(request.exec_timeout_seconds, type, rules),
        grace_seconds=rules.grace_seconds if type.grace_seconds is None else type.grace_seconds,
        not_after_seconds=not_after_of(request.not_after_seconds, rules),
        reason=check_text("reason", request.reason),
        metadata=metadata_of(request.metadata),
        parent_job_id=optional_id("parent_job_id", request.parent_job_id),
        dry_run=request.dry_run,
        request_hash=hash,
    )
    argv_of(spec)
    probe_of(spec)
    return spec


def with_definition(spec: JobSpec, type: CommandType) -> JobSpec:
    """The spec under another definition of its command type. InvalidInput or CommandRefused if the definition
    does not take what the job has: it was checked against the one before."""
    command_of(spec.command, type)
    args_of(spec.args, type)
    env_of(spec.env, type)
    check_variables("secrets", spec.secrets, type)
    on_restart_of(spec.on_restart, type, is_idempotent=spec.idempotent)
    changed = replace(spec, definition=type)
    argv_of(changed)
    probe_of(changed)
    return changed


def check_targets(spec: JobSpec, count: int) -> None:
    """BatchTooLarge or CommandRefused if the job has too many hosts, EmptySelection if it has none."""
    if not count:
        raise EmptySelection("the job has no host: the job would do nothing")
    if count > HOSTS_MAX:
        raise BatchTooLarge(
            f"the job has {count} hosts, the limit is {HOSTS_MAX}: make several jobs"
        )
    most = spec.definition.max_hosts
    if most is not None and count > most:
        raise CommandRefused(
            f"the job has {count} hosts; command type {spec.command_type} allows {most}: select fewer"
        )


def argv_of(spec: JobSpec) -> tuple[str, ...]:
    """What the agent runs: the words; of the kind `shell` one item, the text for the shell; of the kind
    `builtin` its name; of `noop` nothing."""
    type = spec.definition
    match type.kind:
        case CommandKind.NOOP:
            return ()
        case CommandKind.BUILTIN:
            return (type.builtin,)
        case CommandKind.SHELL:
            return (spec.command,)
        case CommandKind.ARGV:
            return _filled(spec, type.argv)


def probe_of(spec: JobSpec) -> tuple[str, ...]:
    """The words of the command that tells whether a lost run did its work. Empty: none does."""
    return _filled(spec, spec.definition.probe)


def digest_of(
    spec: JobSpec,
    type: CommandType,
    targets: Sequence[str],
    blocks: Sequence[Block],
    secret_versions: Mapping[str, Sequence[int]],
    *,
    driven: Sequence[tuple[str, str, str]] = (),
) -> str:
    """What an approval is bound to. `type`: the definition that counts now. `targets`: the ids of the hosts.
    `blocks`: those that match a target. `secret_versions`: see `secrets.versions`. `driven`: (id, driver,
    address) of targets without an agent, because the address decides which machine gets the command."""
    decided: dict[str, object] = {
        "command_type": spec.command_type,
        "definition": msgspec.to_builtins(type),
        "command": spec.command,
        "args": spec.args,
        "env": spec.env,
        "secrets": msgspec.to_builtins(spec.secrets),
        "secret_versions": {name: list(found) for name, found in secret_versions.items()},
        "targets": sorted(set(targets)),
        "rollout": msgspec.to_builtins(spec.rollout),
        "timeouts": [spec.exec_timeout_seconds, spec.grace_seconds, spec.not_after_seconds],
        "retry": [spec.max_retries, spec.base_seconds, spec.cap_seconds, spec.idempotent],
        "on_restart": spec.on_restart.value,
        "blocks": [
            msgspec.to_builtins(block) for block in sorted(blocks, key=lambda each: each.id)
        ],
    }
    if driven:
        decided["driven"] = sorted(set(driven))
    return DIGEST_MARK + hashlib.sha256(codec.dumps(decided).encode()).hexdigest()


def _filled(spec: JobSpec, template: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a template, checked: they come from a user."""
    if not template:
        return ()
    args = {name: arg_words(name, value) for name, value in spec.args.items()}
    words = split_words("command", spec.command) if COMMAND in template else ()
    if COMMAND in template and not words:
        raise InvalidInput("command has no word: give the words of a command")
    type = spec.definition
    given = [*words, *(word for found in args.values() for word in found)]
    if not type.options and (wrong := [word for word in given if word.startswith("-")]):
        raise CommandRefused(
            f"command type {type.name} takes no options, and {shown(wrong[0])} looks like one: leave it out"
        )
    if any("\0" in word for word in given):
        raise InvalidInput("args has a NUL character: leave it out")
    argv = filled(template, words, args)
    if len(argv) > ARGV_MAX:
        raise TooLarge(f"the command has {len(argv)} words, the limit is {ARGV_MAX}: use fewer")
    if not argv[0]:
        raise InvalidInput("command has an empty first word: give the program")
    return argv
