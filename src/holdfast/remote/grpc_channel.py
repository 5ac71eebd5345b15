"""One connection to one gateway over gRPC: `holdfast.sync.v1.WorkerSync/Sync`.

Promises: those of `channel.Channel`. A refusal by the gateway raises its typed error, every other end
GatewayUnavailable. A peer that is gone is found by keepalive.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from holdfast.client.problems import problem
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.worker.wire import GatewayMessage, WorkerMessage
from holdfast.errors import BadConfig
from holdfast.proto import codec
from holdfast.proto.sync.v1 import sync_pb2 as pb
from holdfast.remote.channel import CONNECT_SECONDS, FRAME_BYTES_MAX
from holdfast.remote.gateways import Tls

METHOD: Final = "/holdfast.sync.v1.WorkerSync/Sync"
ERROR_CODE: Final = "holdfast-error-code"
"""The trailing metadata with the code of the error that ended a stream."""
_ENDED: Final = (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError)
log = logging.getLogger("holdfast.worker")


class GrpcChannel:
    """A connection over gRPC."""

    def __init__(self, channel: grpc.aio.Channel, stream: Any, target: str) -> None:
        self._channel = channel
        self._stream = stream
        self._target = target
        self._is_closed = False

    async def accepted(self) -> None:
        """Waits until the gateway has accepted the credential. A message before that could hide why it was
        refused."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._stream.initial_metadata()
            if self._stream.done():
                raise await self._ended()
        except TimeoutError:
            await self.close()
            raise GatewayUnavailable(f"{self._target} does not accept a stream") from None
        except BaseException:
            await self.close()
            raise

    async def send(self, message: WorkerMessage) -> None:
        try:
            await self._stream.write(codec.encode_worker(message))
        except _ENDED:
            raise await self._ended() from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise await self._ended() from None

    async def receive(self) -> GatewayMessage:
        """The next message. Those of a newer protocol are skipped."""
        while True:
            try:
                data = await self._stream.read()
            except _ENDED:
                raise await self._ended() from None
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                raise await self._ended() from None
            if data is grpc.aio.EOF:
                raise await self._ended()
            try:
                message = codec.decode_gateway(pb.GatewayMessage.FromString(data))
            except DecodeError as error:
                log.warning("a message of gateway %s cannot be read: %s", self._target, error)
                continue
            if message is not None:
                return message

    async def close(self) -> None:
        self._is_closed = True
        self._stream.cancel()
        await self._channel.close()

    async def _ended(self) -> Exception:
        if not self._is_closed:
            status = await self._stream.code()
            text = await self._stream.details() or status.name
            codes = [v for k, v in await self._stream.trailing_metadata() or () if k == ERROR_CODE]
            if codes:
                return problem(500, {"code": str(codes[0]), "detail": text})
            return GatewayUnavailable(
                f"the connection to {self._target} ended: {status.name}: {text}"
            )
        return GatewayUnavailable(f"the connection to {self._target} is closed")


def _is_cancelled() -> bool:
    """Whether this task is cancelled. A call that ended on this side raises CancelledError as well."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def connect(
    target: str, token: str, ping_seconds: float, tls: Tls | None = None
) -> GrpcChannel:
    """Connects to worker sync at a gateway. `tls`: None for none."""
    options = (
        ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
        ("grpc.max_send_message_length", FRAME_BYTES_MAX),
        ("grpc.keepalive_time_ms", int(ping_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", int(ping_seconds * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    )
    if tls is None:
        channel = grpc.aio.insecure_channel(target, options)
    else:
        channel = grpc.aio.secure_channel(target, _credentials(tls), options)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _ready(channel)
    except (TimeoutError, ConnectionError):
        await channel.close()
        raise GatewayUnavailable(f"no gateway answers gRPC at {target}") from None
    except BaseException:
        await channel.close()
        raise
    method: Any = channel.stream_stream(
        METHOD, request_serializer=pb.WorkerMessage.SerializeToString, response_deserializer=None
    )
    stream = method(metadata=(("authorization", f"Bearer {token}"),))
    opened = GrpcChannel(channel, stream, target)
    await opened.accepted()
    return opened


async def _ready(channel: grpc.aio.Channel) -> None:
    """Waits for the connection. ConnectionError when the first try has failed."""
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise ConnectionError
        await channel.wait_for_state_change(state)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    try:
        return grpc.ssl_channel_credentials(
            _roots() if tls.ca is None else Path(tls.ca).read_bytes(),
            None if tls.cert is None else Path(tls.key or tls.cert).read_bytes(),
            None if tls.cert is None else Path(tls.cert).read_bytes(),
        )
    except OSError as error:
        raise BadConfig(
            f"{error.filename} in the address of the gateway cannot be used: {error.strerror or error}"
        ) from None


def _roots() -> bytes | None:
    """The authorities of the system, as HTTPS uses them. None: those that gRPC brings."""
    paths = ssl.get_default_verify_paths()
    name = os.environ.get(paths.openssl_cafile_env) or paths.cafile
    return Path(name).read_bytes() if name else None
