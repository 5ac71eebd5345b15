"""What is valid in a message of an agent: sizes, names, numbers.

Promises: what passes can be judged and stored, so a bad message is refused alone, before it meets others.
A reason is never a cause to refuse: it is cut and made printable, because the result beside it counts.
Never: I/O.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final, TypeVar

from msgspec.structs import replace

from holdfast.core.check import check_choice, check_name, check_number, check_text, check_whole
from holdfast.core.errors import TooLarge
from holdfast.core.fleet.agents.wire import (
    CHUNK_BYTES_MAX,
    ITEMS_MAX,
    STREAM_BYTES_MAX,
    AgentChunk,
    AgentCommandAck,
    AgentResult,
    AgentSync,
    reason_of,
)
from holdfast.core.output import StreamName
from holdfast.core.wire import WHOLE_MAX
from holdfast.errors import BatchTooLarge, InvalidInput

STATES: Final = ("exited", "never_started", "refused", "unknown")
_LISTS: Final = ("accepts", "refuses", "running", "chunks", "results", "command_acks")
_CODE_MAX: Final = 2**31 - 1


def check_sync(message: AgentSync) -> AgentSync:
    """The message with readable reasons. InvalidInput unless it can be judged."""
    check_whole("incarnation", message.incarnation, least=0, most=WHOLE_MAX)
    check_whole("seq", message.seq, least=0, most=WHOLE_MAX)
    check_whole("capacity", message.capacity, least=0, most=WHOLE_MAX)
    check_whole("block_epoch", message.block_epoch, least=0, most=WHOLE_MAX)
    check_whole("last_token", message.last_token, least=0, most=WHOLE_MAX)
    check_number("wait_seconds", message.wait_seconds)
    for name in _LISTS:
        items = getattr(message, name)
        if len(items) > ITEMS_MAX:
            raise BatchTooLarge(f"{name} has {len(items)} items: at most {ITEMS_MAX} are allowed")
    for ref in message.accepts:
        _check_token(ref.execution, ref.token)
    for run in message.running:
        _check_token(run.execution, run.token)
    for chunk in message.chunks:
        _check_chunk(chunk)
    for result in (*message.results, *message.refuses):
        _check_result(result)
    for ack in message.command_acks:
        check_name("id", ack.id)
    if not (message.refuses or message.results or message.command_acks):
        return message
    return replace(
        message,
        refuses=[_readable(one) for one in message.refuses],
        results=[_readable(one) for one in message.results],
        command_acks=[_readable(one) for one in message.command_acks],
    )


_Said = TypeVar("_Said", AgentResult, AgentCommandAck)


def _readable(said: _Said) -> _Said:
    reason = reason_of(said.reason)
    return said if reason == said.reason else replace(said, reason=reason)


def _check_token(execution: str, token: int) -> None:
    check_name("execution", execution)
    check_whole("token", token, least=1, most=WHOLE_MAX)


def _check_chunk(chunk: AgentChunk) -> None:
    _check_token(chunk.execution, chunk.token)
    check_choice("stream", chunk.stream, StreamName)
    check_whole("start", chunk.start, least=0, most=STREAM_BYTES_MAX)
    check_whole("gap", chunk.gap, least=0, most=STREAM_BYTES_MAX - chunk.start)
    try:
        data = b64decode(chunk.data_base64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("data_base64 is not base64") from None
    if len(data) > CHUNK_BYTES_MAX:
        raise TooLarge(f"a chunk has at most {CHUNK_BYTES_MAX} bytes: send several")
    if chunk.start + len(data) > STREAM_BYTES_MAX:
        raise InvalidInput(f"a stream has at most {STREAM_BYTES_MAX} bytes")
    if data and chunk.gap:
        raise InvalidInput("a chunk has either data or a gap")


def _check_result(result: AgentResult) -> None:
    check_name("id", result.id)
    _check_token(result.execution, result.token)
    if result.state not in STATES:
        raise InvalidInput(f"state must be one of {', '.join(STATES)}")
    for name, code in (("exit_code", result.exit_code), ("signal", result.signal)):
        if code is not None:
            check_whole(name, code, least=-_CODE_MAX, most=_CODE_MAX)
    check_number("seconds", result.seconds)
    for stream, size in result.sizes.items():
        check_choice("sizes", stream, StreamName)
        check_whole("sizes", size, least=0, most=STREAM_BYTES_MAX)
    for stream, gaps in result.gaps.items():
        check_choice("gaps", stream, StreamName)
        for start, size in gaps:
            check_whole("gaps", start, least=0, most=STREAM_BYTES_MAX)
            check_whole("gaps", size, least=0, most=STREAM_BYTES_MAX - start)
    for stream, digest in result.sha256.items():
        check_choice("sha256", stream, StreamName)
        check_text("sha256", digest, most=64)
