"""Edits of payloads: what a merge gives, and what an edit did, small enough for an event.

Promises: what an edit removed or replaced can be read in its event, unless that is longer than
`BEFORE_CHARS_MAX`; then the event says so. A merge changes the fields that it names and no other.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.core import codec

BEFORE_CHARS_MAX: Final = 4_096


def merged(payload_json: str, fields_json: str) -> str | None:
    """The payload with these fields; None when either is not an object."""
    payload, fields = codec.loads(payload_json), codec.loads(fields_json)
    if not isinstance(payload, dict) or not isinstance(fields, dict):
        return None
    return codec.dumps({**payload, **fields})


def difference(before_json: str, after_json: str) -> dict[str, Any]:
    """`before`: of an object the fields that were changed or removed, as they were; else all of it. `added`:
    names of new fields."""
    before, after = codec.loads(before_json), codec.loads(after_json)
    said: dict[str, Any] = {}
    if isinstance(before, dict) and isinstance(after, dict):
        was: Any = {k: v for k, v in before.items() if k not in after or after[k] != v}
        added = sorted(after.keys() - before.keys())
        if added:
            said["added"] = added
    else:
        was = before
    if len(codec.dumps([was, said])) > BEFORE_CHARS_MAX:
        return {"before_omitted": True}
    return {"before": was, **said}
