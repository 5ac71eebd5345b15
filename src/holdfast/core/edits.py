"""Edits of payloads: merging, and the difference that goes into the event.

Promises: the event of an edit has the values that the edit removed or replaced. If they are longer than
`BEFORE_CHARS_MAX`, the event says that they were omitted. A merge changes only the fields that it names.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.core import codec

BEFORE_CHARS_MAX: Final = 4_096


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
