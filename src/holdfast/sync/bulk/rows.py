"""Rows of bulk runs, and the scripts that read and write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import bulk as rules, codec
from holdfast.core.bulk import BulkProgress, BulkRun, BulkSpec, BulkState
from holdfast.errors import NotFound
from holdfast.store.beside import Beside, begin, end
from holdfast.store.script import Script, call
from holdfast.sync.rows import own

_spec: Final = msgspec.json.Decoder(BulkSpec)
_progress: Final = msgspec.json.Decoder(BulkProgress)


def create(run: BulkRun, ids: list[str], *, beside: Beside | None, now: float) -> Script[BulkRun]:
    yield from begin(beside, now)
    run = replace(run, created_at=now, updated_at=now, next_at=now)
    yield call(
        own("add_bulk_run"),
        id=run.id,
        spec_json=_json(run.spec),
        ids_json=codec.dumps(ids),
        state=run.state.value,
        total=run.total,
        failed=run.failed,
        errors_json=rules.errors_json(run),
        progress_json=_json(run.progress),
        now=now,
    )
    yield from end(beside, run, now)
    return run


def change(
    run_id: str,
    rule: Callable[[BulkRun, float], BulkRun],
    *,
    beside: Beside | None,
    now: float,
) -> Script[BulkRun]:
    yield from begin(beside, now)
    before = yield from read("lock_bulk_run", run_id)
    after = rule(before, now)
    if after is not before:
        yield from write(after)
    yield from end(beside, after, now)
    return after


def read(statement: str, run_id: str) -> Script[BulkRun]:
    rows = yield call(own(statement), id=run_id)
    if not rows:
        raise NotFound(f"there is no operation '{run_id}'")
    return to_run(rows[0])


def write(run: BulkRun) -> Script[None]:
    yield call(
        own("write_bulk_run"),
        id=run.id,
        state=run.state.value,
        done=run.done,
        failed=run.failed,
        errors_json=rules.errors_json(run),
        detail=run.detail,
        updated_at=run.updated_at,
        next_at=run.next_at,
        version=run.version,
        progress_json=_json(run.progress),
    )


def to_run(row: Sequence[Any]) -> BulkRun:
    """The run of a row, in the order of the statements."""
    names = (
        "total", "done", "failed", "errors", "detail", "created_at", "updated_at", "next_at", "version",
        "progress",
    )  # fmt: skip
    values: dict[str, Any] = dict(zip(names, row[3:], strict=True))
    values["errors"] = codec.loads_object(values["errors"])
    values["progress"] = _progress.decode(values["progress"])
    return BulkRun(id=row[0], spec=_spec.decode(row[1]), state=BulkState(row[2]), **values)


def _json(value: BulkSpec | BulkProgress) -> str:
    return msgspec.json.encode(value).decode()
