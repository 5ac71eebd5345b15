"""Rules of outgoing webhooks: which events an endpoint gets, their body, when a delivery is tried again.

Promises: the body of an event and the id of its message are the same in every attempt. A body has less than
`BODY_BYTES_MAX` bytes, and no secrets that redaction knows. Pauses between attempts are those of a table, up
to a fifth longer by a stable hash of the message. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.check import check_name, shown
from holdfast.core.event import Event, Position
from holdfast.core.event_kinds import KINDS, EventClass, TopicRule, payload_of, project_of
from holdfast.core.redaction import Redaction
from holdfast.core.retry import unit_jitter
from holdfast.core.wire import time_text
from holdfast.errors import InvalidInput

RETRY_SECONDS: Final = (
    *(5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0),
)
"""The pause after each failed attempt. After one more the delivery is given up."""
JITTER_SHARE: Final = 0.2
RETRY_AFTER_SECONDS_MAX: Final = 86_400.0
BODY_BYTES_MAX: Final = 20_000
VALUE_CHARS_MAX: Final = 500
"""Of a field that stays in a body which would be too large."""
KINDS_MAX: Final = 100
ALL: Final = "*"
GROUPS: Final = frozenset(
    row.kind.partition(".")[0] for row in KINDS.values() if TopicRule.ADMIN not in row.topics
)
"""The first words of kinds that an endpoint may get. Events about credentials stay inside."""
KINDS_DEFAULT: Final = ("job.*", "decision.*", "task.dead", "conflict.recorded", "node.cloned")
ERROR_CHARS_MAX: Final = 500


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Kinds of events, or `group.*`. None: `KINDS_DEFAULT`. Those that may be merged are not delivered."""
    if isinstance(kinds, str) or len(kinds) > KINDS_MAX:
        raise InvalidInput(f"kinds has to be a list of at most {KINDS_MAX} kinds of events")
    for kind in kinds:
        group, dot, name = check_name("kinds", kind).partition(".")
        row = KINDS.get(kind) or KINDS.get(f"{group}.")
        is_known = bool(dot) and group in GROUPS and (name == ALL or row is not None)
        if not is_known:
            raise InvalidInput(
                f"kinds has {shown(kind)}, which is no kind of event: use e.g. job.finished or job.*"
            )
        if row is not None and row.event_class is EventClass.INFORMATIONAL:
            raise InvalidInput(
                f"kinds has {shown(kind)}, which is too frequent: read the live feed"
            )
    return tuple(dict.fromkeys(kinds)) or KINDS_DEFAULT


def wants(kinds: Sequence[str], event: Event) -> bool:
    """Whether an endpoint with these kinds gets the event."""
    row = KINDS.get(event.kind)
    if row is not None and row.event_class is EventClass.INFORMATIONAL:
        return False
    group = event.kind.partition(".")[0]
    return group in GROUPS and (event.kind in kinds or f"{group}.{ALL}" in kinds)


def prefixes(kinds: Sequence[str]) -> frozenset[str]:
    """Prefixes of the kinds, for a reader that passes other events."""
    return frozenset(kind.removesuffix(ALL) for kind in kinds)


class WebhookMessage(msgspec.Struct, frozen=True):
    """What is delivered: the payload of an entry of the outbox."""

    id: str
    """`webhook-id`. An endpoint that gets it twice has got it once."""
    type: str
    body: str
    resent_of: int | None = None
    """The delivery that this one repeats."""


def message_id(webhook_id: str, position: Position) -> str:
    return f"msg_{webhook_id}_{position.epoch}_{position.offset}"


def message_of(webhook_id: str, event: Event, redaction: Redaction) -> WebhookMessage:
    data = payload_of(replace(event, data=redaction.value(event.data)))
    if (project := project_of(event)) is not None:
        data["project"] = project
    body = _body(event, data)
    if len(body) >= BODY_BYTES_MAX:
        body = _body(event, _shortened(data))
    return WebhookMessage(message_id(webhook_id, event.position), event.kind, body.decode())


def _body(event: Event, data: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": event.kind, "timestamp": time_text(event.at), "data": data})


def _shortened(data: dict[str, Any]) -> dict[str, Any]:
    """The short fields, as many as fit, and the names of the others."""
    room = BODY_BYTES_MAX // 2
    kept: dict[str, Any] = {}
    omitted: list[str] = []
    for name, value in data.items():
        size = len(msgspec.json.encode(value)) + len(name)
        if size <= VALUE_CHARS_MAX and size <= room:
            kept[name] = value
            room -= size
        elif len(omitted) < KINDS_MAX:
            omitted.append(name[: VALUE_CHARS_MAX // 10])
    return {**kept, "omitted": omitted}


class DeliveryVerdict(StrEnum):
    """What the answer of an endpoint means."""

    DELIVERED = "delivered"
    FAILED = "failed"
    GONE = "gone"
    """The endpoint wants no more (410)."""


def verdict_of(status: int) -> DeliveryVerdict:
    """A redirect is a failure: it would lead to an address that was not checked."""
    if 200 <= status < 300:
        return DeliveryVerdict.DELIVERED
    return DeliveryVerdict.GONE if status == 410 else DeliveryVerdict.FAILED


def retry_seconds(message: str, attempts: int, *, asked: float | None = None) -> float | None:
    """The pause after failed attempt number `attempts` (the first is 1); None: it was the last one. `asked`:
    what the endpoint asks for, which counts if it is longer."""
    if attempts > len(RETRY_SECONDS):
        return None
    pause = RETRY_SECONDS[attempts - 1] * (1.0 + JITTER_SHARE * unit_jitter(message, attempts))
    return max(pause, min(asked or 0.0, RETRY_AFTER_SECONDS_MAX))
