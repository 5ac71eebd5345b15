"""The arguments of an intervention, and the command that they make.

Promises: an argument that its type does not have is refused by name. `graceSeconds` is for the runner only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core import codec, command as c
from holdfast.core.affinity import Affinity
from holdfast.core.check import check_choice, check_id, check_number, check_text, shown
from holdfast.core.intervention import (
    EXPIRES_SECONDS,
    FALLBACK_SECONDS,
    FORCE_REASON_CHARS_MIN,
    REASON_CHARS_MAX,
    InterventionType,
)
from holdfast.core.submit import RESULT_BYTES_MAX, encode_payload
from holdfast.core.task import Status
from holdfast.core.wire import parse_position
from holdfast.errors import InvalidInput

GRACE_SECONDS_MAX: Final = 3_600.0
T: Final = InterventionType
ARGS: Final[dict[InterventionType, frozenset[str]]] = {
    T.ABORT: frozenset({"grace_seconds"}),
    T.PAUSE: frozenset({"grace_seconds"}),
    T.RESUME: frozenset(),
    T.RETRY: frozenset({"delay_seconds", "payload"}),
    T.REASSIGN: frozenset({"to_node", "fallback_seconds"}),
    T.RELEASE_LOCK: frozenset(),
    T.FORCE_STATUS: frozenset({"status", "result", "evidence"}),
}
"""The arguments that each type takes."""


class InterventionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A checked intervention without its evidence, which is read from the feed."""

    type: InterventionType
    reason: str
    args: Mapping[str, Any]
    id: str | None = None
    """A repeat with the same id gets the same answer. None: the store gives one."""
    expires_seconds: float = EXPIRES_SECONDS
    """How long the command is sent to the runner."""
    requested_by: str = ""
    """The name that the caller gave, for display."""

    @property
    def args_json(self) -> str:
        return codec.dumps(dict(self.args))

    @property
    def evidence(self) -> str | None:
        """The position of the event `task.late` whose result is adopted."""
        return self.args.get("evidence")

    @property
    def to_node(self) -> str | None:
        return self.args.get("to_node")


def intervention_request(
    type: InterventionType | str,
    reason: object,
    args: object = None,
    *,
    id: str | None = None,
    expires_seconds: float = EXPIRES_SECONDS,
    requested_by: str = "",
    fallback_seconds: float | None = None,
) -> InterventionRequest:
    """A checked request. InvalidInput names the argument that is wrong. `fallback_seconds`: of a REASSIGN
    that has none."""
    kind = check_choice("type", type, InterventionType)
    text = check_text("reason", reason, most=REASON_CHARS_MAX)
    least = FORCE_REASON_CHARS_MIN if kind is T.FORCE_STATUS else 1
    if len(text.strip()) < least:
        raise InvalidInput(f"reason must have at least {least} characters: say why")
    checked = _checked(kind, {} if args is None else args)
    if kind is T.REASSIGN and fallback_seconds is not None:
        checked.setdefault("fallback_seconds", fallback_seconds)
    return InterventionRequest(
        type=kind,
        reason=text,
        args=checked,
        id=id,
        expires_seconds=expires_seconds,
        requested_by=requested_by,
    )


def _checked(kind: InterventionType, args: object) -> dict[str, Any]:
    if not isinstance(args, dict):
        raise InvalidInput(f"args is {shown(args)}: give an object")
    if unknown := sorted(set(args) - ARGS[kind]):
        names = ", ".join(sorted(ARGS[kind])) or "none"
        raise InvalidInput(f"{kind} has no argument {shown(unknown[0])}: it has {names}")
    checked = {name: _CHECKS[name](value) for name, value in args.items() if value is not None}
    if "result" in args:
        encode_payload(args["result"], what="result", limit=RESULT_BYTES_MAX)
        checked["result"] = args["result"]
    if kind is T.REASSIGN and "to_node" not in checked:
        raise InvalidInput("REASSIGN needs the argument to_node: the node that gets the task")
    if kind is T.FORCE_STATUS and "status" not in checked:
        raise InvalidInput("FORCE_STATUS needs the argument status")
    if "result" in checked and "evidence" in checked:
        raise InvalidInput("FORCE_STATUS takes a result or evidence, not both")
    return checked


def _seconds(field: str, most: float | None = None) -> Callable[[object], float]:
    if most is None:
        return lambda value: check_number(field, value)
    return lambda value: check_number(field, value, most=most)


Check: TypeAlias = Callable[[Any], Any]
_CHECKS: Final[dict[str, Check]] = {
    "grace_seconds": _seconds("grace_seconds", GRACE_SECONDS_MAX),
    "delay_seconds": _seconds("delay_seconds"),
    "fallback_seconds": _seconds("fallback_seconds"),
    "to_node": lambda value: check_id("to_node", value),
    "status": lambda value: check_choice("status", value, Status).value,
    "evidence": lambda value: str(parse_position("evidence", value)),
    "payload": lambda value: codec.loads(encode_payload(value)),
    "result": lambda value: value,
}


def command_of(
    request: InterventionRequest,
    actor: str,
    evidence: c.Evidence | None = None,
    affinity: Affinity | None = None,
) -> c.OperatorCommand:
    """The command of a request. `affinity`: of a RESUME."""
    args, reason = request.args, request.reason
    match request.type:
        case InterventionType.ABORT:
            return c.Abort(actor, reason)
        case InterventionType.PAUSE:
            return c.Pause(actor, reason)
        case InterventionType.RESUME:
            return c.Resume(actor, reason, affinity)
        case InterventionType.RETRY:
            payload = args.get("payload")
            text = None if payload is None else encode_payload(payload)
            return c.RetryTask(actor, reason, args.get("delay_seconds", 0.0), text)
        case InterventionType.REASSIGN:
            seconds = args.get("fallback_seconds", FALLBACK_SECONDS)
            return c.Reassign(actor, args["to_node"], seconds or None, reason)
        case InterventionType.RELEASE_LOCK:
            return c.Unlock(actor, reason)
        case InterventionType.FORCE_STATUS:
            result = encode_payload(args["result"]) if "result" in args else None
            return c.Force(actor, Status(args["status"]), reason, result, evidence)
