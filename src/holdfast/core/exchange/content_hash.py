"""The hash by which replicas compare the content of a task without sending it.

Promises: equal content gives an equal hash in every process: `h1:` and BLAKE2b with 128 bits over canonical
JSON, which a client in another language can write too.
Never: covers what a runner observes. Progress does not make a replica differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.core import codec
from holdfast.core.task import Status

HASH_BYTES: Final = 16
EXACT_MAX: Final = 2**53
"""Whole floats up to here are integers to a reader in another language."""


def content_hash(
    id: str,
    type: str,
    status: Status,
    *,
    payload: object,
    result: object,
    metadata: Mapping[str, object],
    labels: Iterable[str],
) -> str:
    """Labels are a set: order and repetition do not count."""
    content = {
        "id": id,
        "type": type,
        "status": status.value,
        "payload": payload,
        "result": result,
        "metadata": dict(metadata),
        "labels": sorted(set(labels)),
    }
    data = codec.dumps(_shortest(content)).encode()
    return f"h1:{hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()}"


def _shortest(value: object) -> object:
    """Whole floats as integers: JavaScript writes 1.0 as 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_MAX:
        return int(value)
    if isinstance(value, dict):
        return {key: _shortest(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortest(item) for item in value]
    return value
