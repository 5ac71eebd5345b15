"""How content that was written on an old version is applied: the strategies of a project.

Content is payload, metadata and labels. `last_write_wins`: the write that the server commits later wins.
`merge`: the joins of `merge.py`; a text that both sides changed is left to a person. `manual`: a person
settles everything. A project chooses one and may choose another one for a class of fields.
Promises: content is applied whole or not at all.
Never: touches a status, or what a runner observes (its joins need no strategy).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core.exchange.merge import (
    NO_LABELS,
    Labels,
    Metadata,
    Stamp,
    Stamped,
    change_labels,
    join_labels,
    join_metadata,
    join_text,
)


class Strategy(StrEnum):
    LAST_WRITE_WINS = "last_write_wins"
    MERGE = "merge"
    MANUAL = "manual"


class FieldClass(StrEnum):
    """The classes of fields by how concurrent writes join."""

    REGISTER = "register"
    """Status, desired, node, fence, assigned node, result, failure: compare and set only."""
    PROGRESS = "progress"
    """Progress, phase, iteration."""
    COUNTER = "counter"
    """Metrics."""
    LOG = "log"
    """Output."""
    SET = "set"
    """Labels."""
    MAP = "map"
    """Metadata."""
    TEXT = "text"
    """Payload, notes."""


F = FieldClass
CONTENT: Final = frozenset({F.SET, F.MAP, F.TEXT})
"""The classes that a strategy applies to."""


class Strategies(msgspec.Struct, frozen=True):
    """The strategy of a project, with those of single classes of fields."""

    default: Strategy = Strategy.MERGE
    overrides: Mapping[FieldClass, Strategy] = {}

    def __post_init__(self) -> None:
        if others := self.overrides.keys() - CONTENT:
            raise ValueError(f"no strategy applies to {', '.join(sorted(others))} fields")

    def of(self, field_class: FieldClass) -> Strategy:
        return self.overrides.get(field_class, self.default)


class ContentChange(msgspec.Struct, frozen=True):
    """The content that a write brings. What is None or empty stays as it is."""

    payload_json: str | None = None
    metadata: Mapping[str, str] = {}
    """Keys to set, with their values as JSON."""
    labels_added: frozenset[str] = frozenset()
    labels_removed: frozenset[str] = frozenset()

    @property
    def classes(self) -> frozenset[FieldClass]:
        has = {
            F.TEXT: self.payload_json is not None,
            F.MAP: bool(self.metadata),
            F.SET: bool(self.labels_added or self.labels_removed),
        }
        return frozenset(field_class for field_class, is_there in has.items() if is_there)


class Content(msgspec.Struct, frozen=True):
    """The content of a task in the store."""

    payload_json: str
    payload_version: int
    """The version that the last change of the payload made."""
    metadata: Metadata = {}
    labels: Labels = NO_LABELS


class Unmerged(msgspec.Struct, frozen=True):
    """The classes that a person must settle. Nothing of the change is applied."""

    classes: frozenset[FieldClass]


def unmerged(
    payload_json: str,
    payload_version: int,
    change: ContentChange,
    base_version: int,
    strategies: Strategies,
) -> frozenset[FieldClass]:
    """The classes of a change on an old version that cannot be applied; empty when all can."""
    # The server does not keep old payloads: it knows the base only when the payload is still that one.
    base = payload_json if payload_version <= base_version else None
    text = change.payload_json
    both_changed = text is not None and join_text(base, payload_json, text) is None
    return frozenset(
        field_class
        for field_class in change.classes
        if (strategy := strategies.of(field_class)) is Strategy.MANUAL
        or (strategy is Strategy.MERGE and field_class is F.TEXT and both_changed)
    )


def apply_change(
    content: Content,
    change: ContentChange,
    *,
    version: int,
    base_version: int,
    stamp: Stamp,
    strategies: Strategies,
) -> Content | Unmerged:
    """The content after a write. `version` is the task's before the write, `base_version` the one that the
    writer had read, `stamp` names the write."""
    if base_version < version and (
        classes := unmerged(
            content.payload_json, content.payload_version, change, base_version, strategies
        )
    ):
        return Unmerged(classes)
    wins = strategies.of(F.SET) is Strategy.LAST_WRITE_WINS
    labels = change_labels(
        content.labels,
        change.labels_added,
        change.labels_removed,
        base_version=version if wins else base_version,
        stamp=stamp,
    )
    metadata = {key: Stamped(stamp, value) for key, value in change.metadata.items()}
    after = replace(
        content,
        metadata=join_metadata(content.metadata, metadata),
        labels=join_labels(content.labels, labels),
    )
    payload_json = change.payload_json
    if payload_json is None or payload_json == content.payload_json:
        return after
    return replace(after, payload_json=payload_json, payload_version=stamp.version)
