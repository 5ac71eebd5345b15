"""What bulk runs need and leave: the right of each action, and the audit rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core import codec
from holdfast.core.audit import AuditEntry
from holdfast.core.bulk import BulkAction, BulkSpec
from holdfast.core.redaction import Redaction
from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.core.transition import Transition
from holdfast.store.beside import Beside
from holdfast.sync.access.recorded import Recorded

RIGHT_OF: Final = {
    BulkAction.REPLAY: O.DEAD_REPLAY,
    BulkAction.DISCARD: O.DEAD_DISCARD,
    BulkAction.ABORT: O.TASKS_INTERVENE,
    BulkAction.PAUSE: O.TASKS_INTERVENE,
    BulkAction.RESUME: O.TASKS_INTERVENE,
    BulkAction.REASSIGN: O.TASKS_INTERVENE,
}
"""What a run needs beside `operations.run`."""


def audited(spec: BulkSpec, redaction: Redaction) -> Beside:
    """The audit rows of a batch: one for each task that it changed."""

    def entries(outcome: object, now: float) -> Sequence[AuditEntry]:
        assert isinstance(outcome, list)
        return [
            AuditEntry(
                at=now,
                actor=spec.actor,
                operation=RIGHT_OF[spec.action].value,
                project=ruling.after.project,
                subject=ruling.after.id,
                reason=redaction.text(spec.reason),
                before_version=ruling.before.version,
                after_version=ruling.after.version,
                detail_json=codec.dumps({"action": spec.action.value}),
                request_id=spec.request_id,
            )
            for ruling in outcome
            if isinstance(ruling, Transition)
        ]

    return Recorded(entries)
