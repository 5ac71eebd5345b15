"""Worker sync over plain HTTP: `POST /api/v1/worker/sync {"messages": […]}` answers `{"messages": […]}`.

For workers behind proxies that pass neither gRPC nor WebSocket. A request is a session of its length: a
`hello` with the known incarnation comes first when the worker asks for tasks or renews leases.
Promises: the answers of one request are complete; a repeated request is answered as a repeat.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from holdfast.core.check import check_number
from holdfast.core.errors import Malformed
from holdfast.core.worker.wire import GatewayMessage, WorkerMessage
from holdfast.errors import BatchTooLarge, HoldfastError
from holdfast.gateway.shown import error_frame
from holdfast.gateway.worker import json_codec
from holdfast.gateway.worker.service import ASK_WAIT_SECONDS_MAX, WorkerService
from holdfast.gateway.worker.session import Received, WorkerSession
from holdfast.gateway.worker.speaker import Speaker

MESSAGES_MAX: Final = 64
"""Messages of one request: the window of a stream."""


class HttpAnswer(msgspec.Struct, frozen=True):
    """The answer to a request."""

    messages: list[GatewayMessage]
    error: HoldfastError | None = None
    """What ended the session early. Its `http_status` is that of the answer if no message was answered."""

    @property
    def status(self) -> int:
        return 200 if self.error is None or self.messages else self.error.http_status

    def body(self) -> bytes:
        messages: list[GatewayMessage] = list(self.messages)
        if self.error is not None:
            messages.append(error_frame(self.error))
        return msgspec.json.encode({"messages": messages})


async def exchange(service: WorkerService, speaker: Speaker, body: bytes) -> HttpAnswer:
    """Answers one request. InvalidInput if its body cannot be read at all."""
    values, wait_seconds = _parsed(body)
    answers: list[GatewayMessage] = []

    async def send(message: GatewayMessage) -> None:
        answers.append(message)

    session = WorkerSession(service, speaker, is_lasting=False)
    try:
        await session.run(_given(values), send)
    except HoldfastError as error:
        return HttpAnswer(answers, error)
    # The session speaks for the node that its hello has named.
    commands = await service.commands.pending(session.node) if session.node else ()
    if not commands and not answers and wait_seconds and session.node:
        await service.wait_for_commands(session.node, wait_seconds)
        commands = await service.commands.pending(session.node)
    names = {getattr(message, "id", None) for message in answers}
    answers += [command for command in commands if getattr(command, "id", "") not in names]
    return HttpAnswer(answers)


def _parsed(body: bytes) -> tuple[list[object], float]:
    value = json_codec.parse(body)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise Malformed('the body is an object: {"messages": [...]}')
    if unknown := sorted(set(value) - {"messages", "wait_seconds"}):
        raise Malformed(f"the body has an unknown field: {unknown[0]}")
    messages = value["messages"]
    if len(messages) > MESSAGES_MAX:
        raise BatchTooLarge(f"a request has at most {MESSAGES_MAX} messages, not {len(messages)}")
    seconds = check_number("wait_seconds", value.get("wait_seconds", 0.0))
    return messages, min(seconds, ASK_WAIT_SECONDS_MAX)


async def _given(values: list[object]) -> AsyncIterator[Received]:
    for value in values:
        message: WorkerMessage | HoldfastError
        try:
            message = json_codec.message_of(value)
        except HoldfastError as error:
            message = error
        yield message, 0
