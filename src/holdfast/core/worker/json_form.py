"""Messages of a worker as JSON, for connections that are not gRPC.

Promises: output keeps its bytes and its offset. In JSON, `data` is text and a chunk without `start` goes to
the end, so bytes travel as `dataBase64` and the offset is always given.
"""

from __future__ import annotations

import msgspec

from holdfast.core.worker.wire import SyncMessage, WorkerMessage


def encode(message: WorkerMessage) -> bytes:
    """The text of the frame."""
    if not isinstance(message, SyncMessage) or not message.changes.output:
        return msgspec.json.encode(message)
    value = msgspec.to_builtins(message)
    for chunk, given in zip(value["changes"]["output"], message.changes.output, strict=True):
        chunk["dataBase64"] = chunk.pop("data", "")
        if given.start is not None:
            chunk["start"] = given.start
    return msgspec.json.encode(value)
