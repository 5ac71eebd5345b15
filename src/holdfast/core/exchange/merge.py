"""The joins of concurrent writes, one for each class of fields.

Promises: every join but the one of texts is commutative, associative and idempotent, so that replicas which
receive the same writes agree, in any order and with any repetition. The join of texts is symmetric, has the
base as identity and is idempotent.
Never: joins a status, an owner, a fence or a result. Those change by fenced or versioned writes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec


class Progress(msgspec.Struct, frozen=True, order=True):
    """How far a run is. Ordered by its fields: a later run is ahead of an earlier one."""

    fence: int = 0
    iteration: int = 0
    done: float = 0.0
    phase: str = ""
    """The phase of the greater report. Two reports that are equal otherwise keep the greater text."""


def join_progress(a: Progress, b: Progress) -> Progress:
    return max(a, b)


class Stamp(msgspec.Struct, frozen=True, order=True):
    """The identity of a write. The server gives it: the version that the write made, and its mutation id."""

    version: int
    mutation_id: str


class LabelTag(msgspec.Struct, frozen=True, order=True):
    """One addition of a label."""

    label: str
    stamp: Stamp


class Labels(msgspec.Struct, frozen=True):
    """The labels of a task, as additions and as additions that were taken back."""

    added: frozenset[LabelTag] = frozenset()
    removed: frozenset[LabelTag] = frozenset()

    @property
    def members(self) -> frozenset[str]:
        """A label with an addition that was not taken back: an addition wins over a concurrent removal."""
        return frozenset(tag.label for tag in self.added - self.removed)


NO_LABELS: Final = Labels()


def join_labels(a: Labels, b: Labels) -> Labels:
    return Labels(a.added | b.added, a.removed | b.removed)


def change_labels(
    labels: Labels, add: Iterable[str], remove: Iterable[str], *, base_version: int, stamp: Stamp
) -> Labels:
    """What one write contributes. It takes back the additions that its writer had read, i.e. those up to
    `base_version`."""
    names = frozenset(remove)
    return Labels(
        frozenset(LabelTag(label, stamp) for label in add),
        frozenset(
            tag for tag in labels.added if tag.label in names and tag.stamp.version <= base_version
        ),
    )


class Stamped(msgspec.Struct, frozen=True, order=True):
    """The value of a metadata key with the write that set it."""

    stamp: Stamp
    value_json: str


Metadata: TypeAlias = Mapping[str, Stamped]


def join_metadata(a: Metadata, b: Metadata) -> dict[str, Stamped]:
    """The latest write of each key."""
    return {key: max(m[key] for m in (a, b) if key in m) for key in a.keys() | b.keys()}


def join_text(base: str | None, ours: str, theirs: str) -> str | None:
    """The text when at most one side changed it, or both made the same change; else None, and a person
    must settle it. `base` is None when it is not known: then only equal texts join."""
    if ours == theirs:
        return ours
    if base is None:
        return None
    if ours == base:
        return theirs
    return ours if theirs == base else None
