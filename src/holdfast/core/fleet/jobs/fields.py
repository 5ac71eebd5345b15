"""The fields of a request for a job: what is valid, and what counts where a field is missing.

Promises: each function returns the value that the job has, or raises a typed error that names the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.core import codec
from holdfast.core.check import (
    check_choice,
    check_id,
    check_number,
    check_positive,
    check_whole,
    shown,
)
from holdfast.core.errors import CommandRefused, EmptySelection, TooLarge, UnknownCommandType
from holdfast.core.fleet.commands.command_type import (
    ENV_NAME,
    HOSTS_MAX,
    TIMEOUT_SECONDS_MAX,
    CommandKind,
    CommandType,
    OnRestart,
)
from holdfast.core.fleet.commands.secrets import SECRETS_MAX, SecretRef, check_ref
from holdfast.core.fleet.hosts.selector_parse import parse
from holdfast.core.fleet.jobs.request import JobRequest, RetryRequest
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.submit import METADATA_BYTES_MAX, encode_payload
from holdfast.core.wire import check_new_id
from holdfast.errors import BatchTooLarge, InvalidInput

COMMAND_BYTES_MAX: Final = 65_536
ENV_BYTES_MAX: Final = 16_384
ARGS_BYTES_MAX: Final = 65_536
RETRIES_MAX: Final = 100
BACKOFF_SECONDS_MAX: Final = 86_400.0
NOT_AFTER_SECONDS_MAX: Final = 30 * 86_400.0
TYPES_SHOWN: Final = 20
"""Types that the error about an unknown one names."""


def type_of(name: str, types: Mapping[str, CommandType]) -> CommandType:
    if name not in types:
        known = ", ".join(sorted(types)[:TYPES_SHOWN])
        raise UnknownCommandType(f"command_type {shown(name)} is not known: use one of {known}")
    return types[name]


def hosts_of(request: JobRequest) -> tuple[str, ...] | None:
    if (request.hosts is None) == (request.selector is None):
        raise InvalidInput("give either hosts or selector, not both and not none")
    if request.hosts is None:
        return None
    if not request.hosts:
        raise EmptySelection("hosts is empty: name at least one host")
    hosts = tuple(dict.fromkeys(request.hosts))
    if len(hosts) > HOSTS_MAX:
        raise BatchTooLarge(
            f"hosts has {len(hosts)} names, the limit is {HOSTS_MAX}: make several jobs"
        )
    for at, name in enumerate(request.hosts):
        check_id(f"hosts[{at}]", name)
    return hosts


def selector_of(request: JobRequest) -> str | None:
    return None if request.selector is None else parse(request.selector).text


def command_of(command: str, type: CommandType) -> str:
    _check_bytes("command", command, COMMAND_BYTES_MAX)
    if type.takes_command and not command.strip():
        raise InvalidInput(f"command is empty: command type {type.name} needs one")
    if command and not type.takes_command and type.kind is not CommandKind.NOOP:
        raise InvalidInput(f"command is {shown(command)}: command type {type.name} takes none")
    return command


def args_of(args: dict[str, codec.Json], type: CommandType) -> dict[str, codec.Json]:
    encode_payload(args, what="args", limit=ARGS_BYTES_MAX)
    for name in sorted(set(args) ^ type.args):
        if name in args:
            known = ", ".join(sorted(type.args)) or "none"
            raise InvalidInput(
                f"args.{name} is not an argument of command type {type.name}: it has {known}"
            )
        raise InvalidInput(f"args.{name} is missing: command type {type.name} needs it")
    return args


def arg_words(name: str, value: codec.Json) -> tuple[str, ...]:
    """An argument is one word; a list is several."""
    items = value if isinstance(value, list) else [value]
    words = []
    for item in items:
        if isinstance(item, bool):
            words.append("true" if item else "false")
        elif isinstance(item, str | int | float):
            words.append(str(item))
        else:
            raise InvalidInput(
                f"args.{name} is {shown(value)}: give a text, a number, true or false, or a list of them"
            )
    return tuple(words)


def env_of(env: dict[str, str], type: CommandType) -> dict[str, str]:
    for name, value in env.items():
        _check_variable("env", name, type)
        _check_bytes(f"env.{name}", value, ENV_BYTES_MAX)
    size = sum(len(name) + len(value.encode()) + 2 for name, value in env.items())
    if size > ENV_BYTES_MAX:
        raise TooLarge(f"env has {size} bytes, the limit is {ENV_BYTES_MAX}: pass less")
    return env


def secrets_of(request: JobRequest, type: CommandType) -> dict[str, SecretRef]:
    if len(request.secrets) > SECRETS_MAX:
        raise InvalidInput(f"secrets has {len(request.secrets)} items: give at most {SECRETS_MAX}")
    for name, ref in request.secrets.items():
        _check_variable("secrets", name, type)
        check_ref(f"secrets.{name}", ref)
        if name in request.env:
            raise InvalidInput(f"secrets.{name} is in env too: give it once")
    return request.secrets


def check_variables(field: str, names: Iterable[str], type: CommandType) -> None:
    """CommandRefused if the type does not let a job set one of these variables."""
    for name in names:
        _check_variable(field, name, type)


def _check_variable(field: str, name: str, type: CommandType) -> None:
    if ENV_NAME.fullmatch(name) is None:
        raise InvalidInput(f"{field} has the name {shown(name)}: use letters, digits and _")
    if not type.allows_env(name):
        allowed = ", ".join(type.env) or "none"
        raise CommandRefused(
            f"command type {type.name} does not let a job set {name}: its env has {allowed}"
        )


def retry_of(
    retry: RetryRequest, is_idempotent: bool, rules: FleetRules
) -> tuple[int, float, float]:
    """Retries, and the shortest and longest pause between them."""
    retries = rules.exec_max_retries if is_idempotent else 0
    if retry.max_retries is not None:
        retries = check_whole("retry.max_retries", retry.max_retries, least=0, most=RETRIES_MAX)
    if retries and not is_idempotent:
        raise InvalidInput(
            f"retry.max_retries is {retries}: only a command that is idempotent can run again; set "
            "idempotent if it is"
        )
    base, cap = rules.base_backoff_seconds, rules.max_backoff_seconds
    if retry.base_seconds is not None:
        base = check_number("retry.base_seconds", retry.base_seconds, most=BACKOFF_SECONDS_MAX)
    if retry.cap_seconds is not None:
        cap = check_number("retry.cap_seconds", retry.cap_seconds, most=BACKOFF_SECONDS_MAX)
    if retry.base_seconds is not None and retry.cap_seconds is not None and cap < base:
        raise InvalidInput(f"retry.cap_seconds is {cap:g}: give at least base_seconds, {base:g}")
    return retries, base, max(base, cap)


def on_restart_of(wanted: OnRestart | None, type: CommandType, *, is_idempotent: bool) -> OnRestart:
    rule = type.on_restart if wanted is None else check_choice("on_restart", wanted, OnRestart)
    if rule is OnRestart.RERUN and not is_idempotent:
        if wanted is None:
            return OnRestart.REPORT_UNKNOWN
        raise InvalidInput("on_restart is 'rerun': only an idempotent command can run again")
    if rule is OnRestart.PROBE and not type.probe:
        raise InvalidInput(f"on_restart is 'probe': command type {type.name} has no probe")
    return rule


def timeout_of(wanted: float | None, type: CommandType, rules: FleetRules) -> float:
    if wanted is not None:
        return check_positive("exec_timeout_seconds", wanted, most=TIMEOUT_SECONDS_MAX)
    return rules.exec_timeout_seconds if type.timeout_seconds is None else type.timeout_seconds


def not_after_of(wanted: float | None, rules: FleetRules) -> float:
    if wanted is None:
        return rules.not_after_seconds
    return check_positive("not_after_seconds", wanted, most=NOT_AFTER_SECONDS_MAX)


def metadata_of(metadata: dict[str, codec.Json]) -> dict[str, codec.Json]:
    encode_payload(metadata, what="metadata", limit=METADATA_BYTES_MAX)
    return metadata


def optional_id(field: str, value: str | None) -> str | None:
    return None if value is None else check_new_id(field, value)


def _check_bytes(field: str, text: str, most: int) -> None:
    size = len(text.encode())
    if size > most:
        raise TooLarge(f"{field} has {size} bytes, the limit is {most}: pass less")
    if "\0" in text:
        raise InvalidInput(f"{field} has a NUL character: leave it out")


def seed_of(hash: str) -> int:
    """The seed of the order of hosts: the same body has the same one."""
    return int(hash[-12:], 16)
