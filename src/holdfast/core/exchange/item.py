"""Items of a push: what a node sends, checked and in the form of the rules.

Promises: the server and the offline node check an item by these rules. A value that is not valid refuses its
item, never another one (`item_wire.py`). What is not sent is not changed. Never: judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from holdfast.core import codec, priority as priorities
from holdfast.core.check import check_id, check_name, check_number, check_text, check_whole
from holdfast.core.exchange.merge import Progress
from holdfast.core.exchange.push import Current, PushItem
from holdfast.core.exchange.strategy import ContentChange
from holdfast.core.failure import plain
from holdfast.core.request import EnqueueRequest
from holdfast.core.submit import METADATA_BYTES_MAX, RESULT_BYTES_MAX, encode_payload
from holdfast.core.tags import TAG_CHARS_MAX, TAGS_MAX, check_tags
from holdfast.core.task import EXTERNAL, Failure, FailureKind
from holdfast.core.totals import check_totals
from holdfast.core.wire import WHOLE_MAX, check_new_id
from holdfast.errors import InvalidInput

LABELS_MAX: Final = TAGS_MAX
"""Labels that one item adds and removes, and labels of one task. They are its tags."""
LABEL_CHARS_MAX: Final = TAG_CHARS_MAX
ERROR_CHARS_MAX: Final = 2_000


class ItemError(msgspec.Struct, frozen=True):
    """Why a run failed, as the runner says."""

    message: str
    kind: str = FailureKind.ERROR.value
    retryable: bool = True


class LabelChange(msgspec.Struct, frozen=True):
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One item of a push. On the wire its fields are in camel case."""

    id: str
    expected_version: int
    status: str | None = None
    mutation_id: str | None = None
    base_hash: str | None = None
    fence: int | None = None
    claim_id: str | None = None
    result: codec.Json | UnsetType = UNSET
    error: ItemError | None = None
    progress: float | None = None
    phase: str | None = None
    iteration: int | None = None
    payload: codec.Json | UnsetType = UNSET
    metadata: Mapping[str, codec.Json] = {}
    labels: LabelChange = LabelChange()
    type: str | None = None
    queue: str | None = None
    priority: str | int | None = None
    metrics: Mapping[str, float] = {}

    def __post_init__(self) -> None:
        # A new name has to be valid as an id.
        (check_name if self.expected_version else check_new_id)("id", self.id)
        check_whole("expectedVersion", self.expected_version, least=0, most=WHOLE_MAX)
        self._check_names()
        self._check_observed()
        self._check_content()

    def _check_names(self) -> None:
        for field, value in (("mutationId", self.mutation_id), ("claimId", self.claim_id)):
            if value is not None:
                check_name(field, value)
        for field, value in (("type", self.type), ("queue", self.queue)):
            if value is not None:
                check_id(field, value)
        if self.status is not None:
            check_text("status", self.status, most=200)
        if self.priority is not None:
            priorities.parse(self.priority)

    def _check_observed(self) -> None:
        for field, value in (("fence", self.fence), ("iteration", self.iteration)):
            if value is not None:
                check_whole(field, value, least=0, most=WHOLE_MAX)
        if self.progress is not None:
            check_number("progress", self.progress, most=1.0)
        if self.phase is not None:
            check_text("phase", self.phase, most=200)
        if self.error is not None:
            check_text("error.message", self.error.message, most=ERROR_CHARS_MAX)
            if self.error.kind not in _KINDS:
                raise InvalidInput(f"error.kind is '{self.error.kind}': use {', '.join(_KINDS)}")
        check_totals(self.metrics)

    def _check_content(self) -> None:
        labels = (*self.labels.add, *self.labels.remove)
        if len(labels) > LABELS_MAX:
            raise InvalidInput(f"labels changes over {LABELS_MAX} labels: split the push")
        for name in labels:
            check_name("labels", name, most=LABEL_CHARS_MAX)
        encode_payload(dict(self.metadata), what="metadata", limit=METADATA_BYTES_MAX)
        if self.payload is not UNSET:
            encode_payload(self.payload)
        if self.result is not UNSET:
            encode_payload(self.result, what="result", limit=RESULT_BYTES_MAX)

    @property
    def has_observed(self) -> bool:
        return any(value is not None for value in (self.progress, self.phase, self.iteration))

    @property
    def change(self) -> ContentChange:
        return ContentChange(
            None if self.payload is UNSET else codec.dumps(self.payload),
            {key: codec.dumps(value) for key, value in self.metadata.items()},
            frozenset(self.labels.add),
            frozenset(self.labels.remove),
        )

    @property
    def result_json(self) -> str | None:
        return None if self.result is UNSET else codec.dumps(self.result)

    @property
    def fingerprint(self) -> str:
        fields = {
            name: value
            for name, value in asdict(self).items()
            if value is not UNSET and value is not None
        }
        return codec.digest(msgspec.json.encode(fields, order="deterministic").decode())

    @property
    def request_hash(self) -> str:
        """The hash of what a creation asks for."""
        if self.expected_version:
            return ""
        added, removed = sorted(self.labels.add), sorted(self.labels.remove)
        change = self.change
        return codec.digest(
            self.type or EXTERNAL,
            self.queue or EXTERNAL,
            str(self.priority),
            change.payload_json or "null",
            codec.dumps(dict(change.metadata)),
            codec.dumps([added, removed]),
        )

    def creation(self, project: str) -> EnqueueRequest:
        return EnqueueRequest(
            type=self.type or EXTERNAL,
            queue=self.queue or EXTERNAL,
            payload=None if self.payload is UNSET else self.payload,
            priority="normal" if self.priority is None else self.priority,
            metadata=dict(self.metadata) or None,
            tags=check_tags(self.labels.add),
            project=project,
        )

    def failure(self, task_type: str) -> Failure:
        error = self.error or ItemError("the runner gave no reason")
        return plain(task_type, FailureKind(error.kind), error.message or "no message")


_KINDS: Final = tuple(
    kind.value for kind in (FailureKind.ERROR, FailureKind.TIMEOUT, FailureKind.REJECTED)
)


def progress_in(item: Item, current: Current | None) -> Progress | None:
    """The progress that an item reports. What it leaves out stays as the current run has it."""
    if not item.has_observed:
        return None
    fence = current.fence if current else 0
    base = Progress(fence=fence)
    if current is not None and current.progress.fence == fence:
        base = current.progress
    return Progress(
        fence,
        base.iteration if item.iteration is None else item.iteration,
        base.done if item.progress is None else item.progress,
        base.phase if item.phase is None else item.phase,
    )


def push_item(item: Item, current: Current | None, *, node: str, incarnation: int) -> PushItem:
    """The item as the rules read it."""
    return PushItem(
        node=node,
        expected_version=item.expected_version,
        status=item.status,
        incarnation=incarnation,
        fence=item.fence,
        claim_id=item.claim_id,
        change=item.change,
        progress=progress_in(item, current),
        has_metrics=bool(item.metrics),
        result_json=item.result_json,
        has_error=item.error is not None,
        request_hash=item.request_hash,
    )
