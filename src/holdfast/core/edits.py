"""Changes of payloads by operators: what a command leaves, and the difference that goes into the event.

Promises: the event of an edit has the values that the edit removed or replaced. If they are longer than
`BEFORE_CHARS_MAX`, the event says that they were omitted. A merge changes only the fields that it names.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.core import codec, command as c
from holdfast.core.merge_patch import merge_patch

BEFORE_CHARS_MAX: Final = 4_096


def has_payload(command: c.Edit | c.Replay) -> bool:
    """Whether the command may change the payload."""
    has_patch = isinstance(command, c.Replay) and command.patch_json is not None
    return has_patch or command.payload_json is not None


def payload_after(payload_json: str, command: c.Edit | c.Replay) -> str | None:
    """The payload that the command leaves. None if it changes fields of what is not an object."""
    given = payload_json if command.payload_json is None else command.payload_json
    if isinstance(command, c.Edit):
        return merged(payload_json, given) if command.merge else given
    return given if command.patch_json is None else _patched(given, command.patch_json)


def _patched(payload_json: str, patch_json: str) -> str | None:
    payload = codec.loads(payload_json)
    if not isinstance(payload, dict):
        return None
    return codec.dumps(merge_patch(payload, codec.loads(patch_json)))


def merged(payload_json: str, fields_json: str) -> str | None:
    """The payload updated with these fields. None when either is not an object."""
    payload, fields = codec.loads(payload_json), codec.loads(fields_json)
    if not isinstance(payload, dict) or not isinstance(fields, dict):
        return None
    return codec.dumps({**payload, **fields})


def difference(before_json: str, after_json: str) -> dict[str, Any]:
    """The event data of an edit. `before`: the old values of changed and removed fields, or the whole old
    payload unless both are objects. `added`: the names of new fields."""
    before, after = codec.loads(before_json), codec.loads(after_json)
    change: dict[str, Any] = {}
    if isinstance(before, dict) and isinstance(after, dict):
        previous: Any = {k: v for k, v in before.items() if k not in after or after[k] != v}
        added = sorted(after.keys() - before.keys())
        if added:
            change["added"] = added
    else:
        previous = before
    if len(codec.dumps([previous, change])) > BEFORE_CHARS_MAX:
        return {"before_omitted": True}
    return {"before": previous, **change}
