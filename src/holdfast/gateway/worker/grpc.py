"""Worker sync over gRPC: `holdfast.sync.v1.WorkerSync/Sync`.

Promises: the credential is the metadata `authorization`; a stream without one is refused before its first
message. A message larger than `MESSAGE_BYTES_MAX` ends its stream with RESOURCE_EXHAUSTED.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio
import msgspec
from google.protobuf.message import DecodeError

from holdfast.core.errors import Malformed
from holdfast.core.worker.wire import GatewayMessage
from holdfast.errors import BadConfig, HoldfastError
from holdfast.gateway.auth.addresses import address_of_peer
from holdfast.gateway.auth.bearer import secret_of
from holdfast.gateway.shown import shown_detail
from holdfast.gateway.worker.door import Admit
from holdfast.gateway.worker.service import WorkerService
from holdfast.gateway.worker.session import Received, WorkerSession
from holdfast.proto import codec
from holdfast.proto.sync.v1 import sync_pb2 as pb

SERVICE: Final = "holdfast.sync.v1.WorkerSync"
MESSAGE_BYTES_MAX: Final = 4_194_304
"""Above the largest result with its escapes."""
STREAMS_MAX: Final = 20_000
PING_MS_LEAST: Final = 500
"""How often a worker may ping."""


class GrpcTls(msgspec.Struct, frozen=True):
    """Certificates of the server, as PEM. With `client_ca` every client needs a certificate of it."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None


class WorkerGrpc:
    """The servicer. `server` adds it to a grpc.aio server."""

    def __init__(self, service: WorkerService, admit: Admit) -> None:
        self._service = service
        self._admit = admit

    async def sync(
        self,
        requests: AsyncIterator[bytes],
        context: grpc.aio.ServicerContext[bytes, pb.GatewayMessage],
    ) -> None:
        """Serves one stream."""
        try:
            admitted = await self._admit(
                _bearer(context.invocation_metadata()), address_of_peer(context.peer())
            )
            try:
                # A worker waits for this before it writes: a refusal then arrives with its code.
                await context.send_initial_metadata(())
                session = WorkerSession(
                    self._service,
                    admitted.speaker,
                    recheck=admitted.recheck,
                    on_joined=admitted.joined,
                )

                async def send(message: GatewayMessage) -> None:
                    await context.write(codec.encode_gateway(message))

                await session.run(_messages(requests), send)
            finally:
                admitted.close()
        except HoldfastError as error:
            await context.abort(
                grpc.StatusCode[error.grpc_status],
                shown_detail(error),
                (("holdfast-error-code", error.code),),
            )

    def handler(self) -> grpc.GenericRpcHandler:
        """The service with its one method, for a server."""
        method: grpc.RpcMethodHandler[bytes, pb.GatewayMessage] = (
            grpc.stream_stream_rpc_method_handler(
                self.sync,
                request_deserializer=None,  # `_messages` reads them: what is no message gets a typed answer
                response_serializer=pb.GatewayMessage.SerializeToString,
            )
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Sync": method})


async def _messages(requests: AsyncIterator[bytes]) -> AsyncIterator[Received]:
    async for data in requests:
        try:
            message = codec.decode_worker(pb.WorkerMessage.FromString(data))
        except DecodeError:
            raise Malformed("this is not a message of holdfast.sync.v1") from None
        if message is not None:  # a kind of a newer version is ignored
            yield message, len(data)


def server(
    service: WorkerService,
    admit: Admit,
    address: str,
    *,
    tls: GrpcTls | None = None,
    options: tuple[tuple[str, Any], ...] = (),
) -> tuple[grpc.aio.Server, int]:
    """A server that is bound but not started, and its port."""
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_concurrent_streams", STREAMS_MAX),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            # Workers look for a dead gateway as often as they renew leases.
            ("grpc.http2.min_ping_interval_without_data_ms", PING_MS_LEAST),
            ("grpc.keepalive_permit_without_calls", 1),
            *options,
        ),
    )
    server.add_generic_rpc_handlers((WorkerGrpc(service, admit).handler(),))
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            credentials = grpc.ssl_server_credentials(
                [(tls.key, tls.certificate)],
                root_certificates=tls.client_ca,
                require_client_auth=tls.client_ca is not None,
            )
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise BadConfig(
            f"gRPC cannot listen on {address}: choose another --grpc-port, or stop the process that has it"
        ) from error
    return server, port


def _bearer(metadata: Any) -> str:
    """The token of the metadata `authorization`."""
    values = [value for key, value in metadata or () if key.lower() == "authorization"]
    value = values[0] if len(values) == 1 else None
    return secret_of(value.decode("ascii", "replace") if isinstance(value, bytes) else value)
