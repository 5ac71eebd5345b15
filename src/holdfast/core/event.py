"""Events: immutable facts in one ordered feed.

Promises: every transition has its event; a position is (epoch, offset) and offsets are contiguous.
Never: carries anything that the task row does not also say, except what an attempt leaves behind.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

RESULT_CHARS_MAX: Final = 4_096
"""A longer result stays in the task only; its event says so."""


class Position(NamedTuple):
    """A place in the feed. The epoch changes when history was lost, e.g. by a restore."""

    epoch: str
    offset: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The inverse of str(); ValueError when it is not a position."""
        epoch, _, offset = text.rpartition(":")
        if not epoch or not (offset.isascii() and offset.isdigit()):
            raise ValueError(f"'{text}' is not a position: it looks like 'epoch:offset'")
        return cls(epoch, int(offset))


class NewEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event before it has a position; the feed keeps it as an array, to be small."""

    kind: str
    at: float
    task_id: str
    type: str
    data: dict[str, Any] = {}


class Event(msgspec.Struct, frozen=True):
    """An event in the feed. `data` has the fields of its kind (docs/reference/events.md)."""

    position: Position
    kind: str
    at: float
    task_id: str
    type: str
    data: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """Fields of `data` read like attributes: `event.attempt`, `event.will_retry`."""
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"event '{self.kind}' has no field '{name}'") from None


NEW_EVENTS: Final = msgspec.json.Decoder(list[NewEvent])


def with_result(data: dict[str, Any], result_json: str | None) -> dict[str, Any]:
    """Adds the result to an event's data, or a note that it is too long to repeat."""
    if result_json is None or result_json == "null":
        data["result"] = None
    elif len(result_json) <= RESULT_CHARS_MAX:
        data["result"] = msgspec.Raw(result_json.encode())
    else:
        data["result_omitted"] = True
    return data
