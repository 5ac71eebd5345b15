"""The body of a request for a job, and the hash that tells whether two bodies are the same.

Promises: unknown fields are refused. The order of hosts, repeated hosts and `dry_run` do not change the hash;
every other field does. A field that is added later leaves stored hashes valid.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core import codec, priority as priorities
from holdfast.core.fleet.commands.command_type import OnRestart
from holdfast.core.fleet.commands.secrets import SecretRef
from holdfast.core.fleet.rollout.policy import RolloutRequest
from holdfast.core.task import DEFAULT_PROJECT, Priority
from holdfast.errors import UnserialisablePayload

REQUEST_HASH_MARK: Final = "j1:"


class RetryRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How often and when a command is repeated. Only idempotent commands are."""

    max_retries: int | None = None
    base_seconds: float | None = None
    cap_seconds: float | None = None


class JobRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The body of `POST /webhook/jobs`. None: the value of the command type, or of the settings."""

    command_type: str
    command: str = ""
    hosts: list[str] | None = None
    """Names or ids. Exactly one of `hosts` and `selector` is given."""
    selector: str | None = None
    external_id: str | None = None
    """The caller's name of the job. The same name with the same body is the same job."""
    project: str | None = None
    """None: that of the caller, else the default one."""
    args: dict[str, codec.Json] = {}
    env: dict[str, str] = {}
    secrets: dict[str, SecretRef] = {}
    """Variables of the environment whose values are secrets."""
    rollout: RolloutRequest | None = None
    retry: RetryRequest | None = None
    idempotent: bool | None = None
    on_restart: OnRestart | None = None
    priority: str | int = Priority.NORMAL.name.lower()
    exec_timeout_seconds: float | None = None
    not_after_seconds: float | None = None
    """How long executions that have not started may wait."""
    reason: str = ""
    metadata: dict[str, codec.Json] = {}
    dry_run: bool = False
    parent_job_id: str | None = None


def request_hash(request: JobRequest) -> str:
    """A hash of what the caller asks for. UnknownPriority if the priority is none, UnserialisablePayload if a
    value is no JSON."""
    body = msgspec.to_builtins(request)
    body.pop("dry_run", None)
    if request.project in (None, DEFAULT_PROJECT):
        body.pop("project", None)
    body["priority"] = priorities.parse(request.priority).name
    if request.hosts is not None:
        body["hosts"] = sorted(set(request.hosts))
    try:
        text = codec.dumps(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnserialisablePayload(f"the request cannot be written as JSON: {error}") from None
    return REQUEST_HASH_MARK + codec.digest(text)
