"""Four eyes: a task whose decisions are not for the person who submitted it.

A submitter asks for it with `four_eyes` in the metadata. The server writes `submitted_by` beside it, from the
credential. Promises: once set, neither field changes, so an edit cannot make the submitter eligible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FOUR_EYES: Final = "four_eyes"
SUBMITTED_BY: Final = "submitted_by"


def with_submitter(metadata: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    """The metadata of a new task. What the request says of its submitter is overwritten."""
    if not metadata or not metadata.get(FOUR_EYES):
        return metadata
    return {**metadata, SUBMITTED_BY: name}


def excludes(metadata: Mapping[str, Any], name: str) -> bool:
    """Whether this person must not decide."""
    return bool(metadata.get(FOUR_EYES)) and metadata.get(SUBMITTED_BY) == name


def is_kept(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a change of the metadata keeps both fields of a task that has four eyes."""
    if not before.get(FOUR_EYES):
        return True
    return all(before.get(key) == after.get(key) for key in (FOUR_EYES, SUBMITTED_BY))
