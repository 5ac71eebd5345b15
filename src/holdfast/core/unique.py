"""Unique windows: while a window is taken, an enqueue is answered with the task that took it.

Promises: at most one task of a key is in a window, from any number of producers. The window is judged at the
enqueue, by the task that holds it; nothing is written when that task starts or ends. Never: changes a task.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import force_setattr

from holdfast.core import codec
from holdfast.core.check import check_name, shown
from holdfast.core.seconds import Seconds, check_span
from holdfast.core.task import ENDED, Task
from holdfast.errors import HoldfastError, InvalidInput

BY_MAX: Final = 20
"""Arguments that a window is chosen by."""
NO_ARGUMENTS: Final = "{}"
"""The payload of a call without arguments. A caller may leave it out."""


class Unique(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At most one task of a type with the same arguments: until it has started, until it has ended, or for a
    period after its enqueue. `by` names the arguments that count; by default all of them do."""

    until: Literal["started", "ended"] | None = None
    period: float | None = None
    """In seconds. A caller may give a timedelta."""
    by: tuple[str, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            until: Literal["started", "ended"] | None = None,
            period: Seconds | None = None,
            by: str | tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        if (self.until is None) == (self.period is None):
            raise InvalidInput("a unique window needs `until` or `period`, one of them")
        if self.until not in (None, "started", "ended"):
            raise InvalidInput(f"until is {shown(self.until)}: use 'started' or 'ended'")
        if self.period is not None:
            force_setattr(self, "period", check_span("period", self.period))
        given: object = self.by
        names = (given,) if isinstance(given, str) else tuple(self.by)
        if len(names) > BY_MAX:
            raise InvalidInput(
                f"a window is chosen by at most {BY_MAX} arguments, not {len(names)}"
            )
        force_setattr(self, "by", tuple(check_name("by", name) for name in names))


def window_key(unique: Unique, payload_json: str) -> str:
    """What tasks of one window share, beside their project and type."""
    text = NO_ARGUMENTS if payload_json == "null" else payload_json
    if not unique.by:
        return codec.digest(text)
    payload = codec.loads(text)
    if not isinstance(payload, dict):
        raise InvalidInput(
            f"the payload is {shown(payload)}: a unique window by arguments needs an object with them"
        )
    return codec.digest(*unique.by, codec.dumps([payload.get(name) for name in unique.by]))


def is_taken(unique: Unique, holder: Task, taken_at: float, now: float) -> bool:
    """Whether the window of a new task is taken by the task that holds it."""
    if unique.period is not None:
        # A window that begins later than it is long was taken while the clock was wrong.
        return abs(now - taken_at) < unique.period
    if unique.until == "started" and holder.started_at is not None:
        return False
    return holder.status not in ENDED


def check_chosen(
    unique: Unique | None, task_type: str, names: Collection[str] | None, wrong: type[HoldfastError]
) -> None:
    """Refuses a window that is chosen by what no task of the type has: all its tasks would share one window.
    `names`: the arguments of the type. None: any."""
    if unique is None or names is None:
        return
    for name in unique.by:
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise wrong(
                f"the unique window of task '{task_type}' is chosen by '{name}', which is not an argument of "
                f"it (it has: {known}): correct `by`"
            )
