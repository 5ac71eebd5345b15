"""The sections `[fleet]` and `[webhooks]` of a server's settings.

Promises: command types, rules of approval and secrets are checked when the server starts; an error names the
key. A secret is named here by its source, a variable or a file: its value is never part of the settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.core.check import check_choice, check_number, check_positive, check_whole, shown
from holdfast.core.fleet.approvals.rules import (
    EXPIRES_SECONDS_MAX,
    NO_APPROVAL,
    REQUIRED,
    ApprovalRule,
    check_rules,
)
from holdfast.core.fleet.commands.command_type import (
    GRACE_SECONDS_MAX,
    HOSTS_MAX,
    TIMEOUT_SECONDS_MAX,
    command_types,
)
from holdfast.core.fleet.commands.secrets import SECRET_NAME, VERSION_MAX
from holdfast.core.fleet.jobs.fields import BACKOFF_SECONDS_MAX, NOT_AFTER_SECONDS_MAX, RETRIES_MAX
from holdfast.core.fleet.rules import RULES, FleetHosting, FleetRules
from holdfast.core.fleet.webhooks import signature
from holdfast.core.fleet.webhooks.address import AddressRules
from holdfast.core.hub_rules import DAY_SECONDS
from holdfast.core.wire import check_project
from holdfast.errors import BadConfig, InvalidInput
from holdfast.fleet.secret_values import SecretSource
from holdfast.fleet.ssh.target import SshOptions
from holdfast.gateway.sections import nearest

SECRETS_MAX: Final = 1_000
"""Secrets of a server."""
SCOPE_MAX: Final = 1_000
"""Projects, or command types, that the scope of a secret names."""
TOLERANCE_SECONDS_MAX: Final = 3_600.0
SETTINGS: Final = "fleet.secrets"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


class StaleBlocks(StrEnum):
    """What an agent does whose list of blocks is old."""

    STRICT = "strict"
    BEST_EFFORT = "best_effort"


SSH: Final = SshOptions()


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs on hosts."""

    hosting: str = FleetHosting.ENGINE.value
    """where the steps of jobs run: `engine` or `celery`"""
    max_in_flight: int = RULES.max_in_flight
    """hosts of a job that run at once, unless the request says it"""
    not_after_seconds: float = RULES.not_after_seconds
    """how long executions that have not started may wait, unless the request says it"""
    exec_timeout_seconds: float = RULES.exec_timeout_seconds
    """the longest run of a command, unless the request or the type says it"""
    grace_seconds: float = RULES.grace_seconds
    """from TERM to KILL, unless the type says it"""
    exec_max_retries: int = RULES.exec_max_retries
    """retries of idempotent commands"""
    base_backoff: float = RULES.base_backoff_seconds
    """seconds before the first retry; they double with each further one"""
    max_backoff: float = RULES.max_backoff_seconds
    """the longest pause between retries"""
    lease_seconds: float = RULES.lease_seconds
    """how long a run counts as alive without a word of its agent"""
    lost_after_seconds: float = RULES.lost_after_seconds
    """how long the outcome of a run may stay unknown before it has failed"""
    outage_grace_seconds: float = RULES.outage_grace_seconds
    """how long leases last after agents could not be served"""
    accept_within_seconds: float = RULES.accept_within_seconds
    """how long an agent has for its answer to an offer"""
    heartbeat_seconds: float = RULES.heartbeat_seconds
    """how often an idle agent speaks"""
    approval_default: str = RULES.approval_default
    """where no rule matches: `required` or `none`"""
    approval_expires_seconds: float = RULES.approval_expires_seconds
    """how long the default rule waits for votes"""
    break_glass_max_hosts: int = RULES.break_glass_max_hosts
    """hosts of a job that may start without its approval"""
    stale_blocks: str = RULES.stale_blocks
    """an agent whose list of blocks is old: `strict` or `best_effort`"""
    outbox_seconds: float = RULES.outbox_seconds
    """how often the outbox is read without a hint"""
    plan_batch: int = RULES.plan_batch
    """executions that one transaction admits"""
    ssh_user: str = ""
    """who logs in to hosts of the driver `ssh` whose address names no user"""
    ssh_keys: tuple[str, ...] = ()
    """files with private keys for them; none: those of the server's user"""
    ssh_known_hosts: str = ""
    """the file with the keys of hosts; none: that of the server's user"""
    ssh_python: str = SSH.python
    """the interpreter on those hosts, 3.9 or later"""
    command_types: dict[str, dict[str, Any]] = {}
    """types of commands by name"""
    approval_rules: tuple[ApprovalRule, ...] = ()
    """rules of approval, in order"""
    secrets: dict[str, SecretSource] = {}
    """where the values of secrets are, by name"""

    def __post_init__(self) -> None:
        wrong = BadConfig
        check_choice("hosting", self.hosting, FleetHosting, wrong=wrong)
        check_choice("stale_blocks", self.stale_blocks, StaleBlocks, wrong=wrong)
        if self.approval_default not in (REQUIRED, NO_APPROVAL):
            raise BadConfig(
                f"approval_default is {shown(self.approval_default)}: use {REQUIRED} or {NO_APPROVAL}"
            )
        for name, least, most in (
            ("max_in_flight", 1, HOSTS_MAX),
            ("exec_max_retries", 0, RETRIES_MAX),
            ("break_glass_max_hosts", 0, HOSTS_MAX),
            ("plan_batch", 1, 10_000),
        ):
            check_whole(name, getattr(self, name), least=least, most=most, wrong=wrong)
        for name, longest in _POSITIVE.items():
            check_positive(name, getattr(self, name), most=longest, wrong=wrong)
        for name, longest in _NUMBERS.items():
            check_number(name, getattr(self, name), most=longest, wrong=wrong)
        if self.max_backoff < self.base_backoff:
            raise BadConfig(
                f"max_backoff is {self.max_backoff:g}: give at least base_backoff, {self.base_backoff:g}"
            )
        _check_secrets(self.secrets)
        _check_approval_rules(self.approval_rules)
        types = command_types(self.command_types)
        for name, source in self.secrets.items():
            for kind in source.command_types or ():
                if kind not in types:
                    raise BadConfig(
                        f"{SETTINGS}.{name}.command_types names {shown(kind)}, which is no command type"
                        f"{nearest(kind, types)}"
                    )
        names = {rule.name for rule in self.approval_rules}
        for type in types.values():
            if type.approval not in (None, NO_APPROVAL, *names):
                raise BadConfig(
                    f"fleet.command_types.{type.name}.approval is {shown(type.approval)}: no rule of "
                    "fleet.approval_rules has that name"
                )

    @property
    def ssh(self) -> SshOptions:
        return SshOptions(
            user=self.ssh_user or None,
            key_files=self.ssh_keys,
            known_hosts=self.ssh_known_hosts or None,
            python=self.ssh_python,
        )

    @property
    def rules(self) -> FleetRules:
        """The values as the fleet takes them."""
        return FleetRules(
            command_types=command_types(self.command_types),
            approval_rules=self.approval_rules,
            hosting=FleetHosting(self.hosting),
            max_in_flight=self.max_in_flight,
            not_after_seconds=self.not_after_seconds,
            exec_timeout_seconds=self.exec_timeout_seconds,
            grace_seconds=self.grace_seconds,
            exec_max_retries=self.exec_max_retries,
            base_backoff_seconds=self.base_backoff,
            max_backoff_seconds=self.max_backoff,
            lease_seconds=self.lease_seconds,
            lost_after_seconds=self.lost_after_seconds,
            outage_grace_seconds=self.outage_grace_seconds,
            accept_within_seconds=self.accept_within_seconds,
            heartbeat_seconds=self.heartbeat_seconds,
            approval_default=self.approval_default,
            approval_expires_seconds=self.approval_expires_seconds,
            break_glass_max_hosts=self.break_glass_max_hosts,
            stale_blocks=self.stale_blocks,
            outbox_seconds=self.outbox_seconds,
            plan_batch=self.plan_batch,
        )


_POSITIVE: Final = {
    "not_after_seconds": NOT_AFTER_SECONDS_MAX,
    "exec_timeout_seconds": TIMEOUT_SECONDS_MAX,
    "lease_seconds": DAY_SECONDS,
    "lost_after_seconds": 30 * DAY_SECONDS,
    "accept_within_seconds": 3_600.0,
    "heartbeat_seconds": 3_600.0,
    "approval_expires_seconds": EXPIRES_SECONDS_MAX,
    "outbox_seconds": 60.0,
}
_NUMBERS: Final = {
    "grace_seconds": GRACE_SECONDS_MAX,
    "base_backoff": BACKOFF_SECONDS_MAX,
    "max_backoff": BACKOFF_SECONDS_MAX,
    "outage_grace_seconds": DAY_SECONDS,
}


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Webhooks, in and out."""

    tolerance_seconds: float = signature.TOLERANCE_SECONDS
    """how far the time of a signed request may be from ours"""
    allow: tuple[str, ...] = ()
    """hosts, addresses and networks that events may be sent to beside public ones"""

    def __post_init__(self) -> None:
        name, value = "tolerance_seconds", self.tolerance_seconds
        check_positive(name, value, most=TOLERANCE_SECONDS_MAX, wrong=BadConfig)
        self.addresses  # noqa: B018  # checks the values

    @property
    def addresses(self) -> AddressRules:
        return AddressRules(self.allow)


def check_tables(table: Mapping[str, object]) -> None:
    """BadConfig for an unknown key in a rule of approval or a secret, with the nearest name."""
    rules = table.get("approval_rules", ())
    for at, rule in enumerate(rules if isinstance(rules, Sequence) else ()):
        _check_keys(f"fleet.approval_rules[{at}]", rule, ApprovalRule)
    secrets = table.get("secrets", {})
    for name, source in (secrets if isinstance(secrets, Mapping) else {}).items():
        _check_keys(f"{SETTINGS}.{name}", source, SecretSource)


def _check_keys(where: str, value: object, kind: type[msgspec.Struct]) -> None:
    if not isinstance(value, Mapping):
        return
    for key in value:
        if key not in kind.__struct_fields__:
            raise BadConfig(
                f"{where} has no setting {shown(key)}{nearest(key, kind.__struct_fields__)}"
            )


def _check_secrets(secrets: Mapping[str, SecretSource]) -> None:
    if len(secrets) > SECRETS_MAX:
        raise BadConfig(f"{SETTINGS} has {len(secrets)} secrets: define at most {SECRETS_MAX}")
    for name, source in secrets.items():
        if SECRET_NAME.fullmatch(name) is None:
            raise BadConfig(
                f"{SETTINGS} has the name {shown(name)}: use letters, digits, _ . / and -"
            )
        where = f"{SETTINGS}.{name}"
        if (source.env is None) == (source.file is None):
            raise BadConfig(f"{where} needs env (a variable) or file (a path): give one of them")
        if source.env is not None and _VARIABLE.fullmatch(source.env) is None:
            raise BadConfig(f"{where}.env is {shown(source.env)}: give the name of a variable")
        _check_scope(where, source)
        check_whole(f"{where}.version", source.version, least=1, most=VERSION_MAX, wrong=BadConfig)


def _check_scope(where: str, source: SecretSource) -> None:
    for field, names in (("projects", source.projects), ("command_types", source.command_types)):
        if names is None:
            continue
        if not 1 <= len(names) <= SCOPE_MAX:
            raise BadConfig(
                f"{where}.{field} has {len(names)} names: give 1 to {SCOPE_MAX}; "
                f"without {field} all may have the secret"
            )
        for name in names if field == "projects" else ():
            check_project(f"{where}.projects", name, wrong=BadConfig)


def _check_approval_rules(rules: Sequence[ApprovalRule]) -> None:
    try:
        check_rules(rules)
    except InvalidInput as error:
        raise BadConfig(f"fleet.approval_rules: {error}") from None
