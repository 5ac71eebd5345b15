"""Verdicts and outcomes of the ledger as plain data, for workers without a database."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from holdfast.core.ledger import (
    Answered,
    Busy,
    Clash,
    Done,
    Entry,
    EntryVerdict,
    Failed,
    Outcome,
    Stale,
    Start,
)
from holdfast.errors import InvalidInput

_VERDICTS: Final = {kind.__name__: kind for kind in (Start, Answered, Busy, Clash, Stale)}


def encode_verdict(verdict: EntryVerdict) -> dict[str, Any]:
    return {"kind": type(verdict).__name__, **msgspec.to_builtins(verdict)}


def decode_verdict(value: Any) -> EntryVerdict:
    """The verdict of `encode_verdict`."""
    fields = dict(value)
    kind = _VERDICTS[fields.pop("kind")]
    if kind is Answered:
        entry = msgspec.convert(fields["entry"], Entry)
        return Answered(entry, decode_outcome(fields["outcome"]))
    return cast("EntryVerdict", msgspec.convert(fields, kind))


def decode_outcome(value: object) -> Outcome:
    """The outcome of plain data. InvalidInput if it is none."""
    is_done = isinstance(value, dict) and "value_json" in value
    try:
        return msgspec.convert(value, Done) if is_done else msgspec.convert(value, Failed)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"outcome: {error}") from None
