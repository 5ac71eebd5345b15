"""Wrong messages on real connections: a typed answer, nothing changed, no other connection affected."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import httpx2
import msgspec
import pytest
import websockets
from hypothesis import HealthCheck, given, settings, strategies as st
from websockets.sync.client import connect

from holdfast.core.close_codes import OF_ERROR
from holdfast.core.worker import wire
from holdfast.gateway.worker.grpc import SERVICE
from holdfast.proto import codec
from holdfast.proto.sync.v1 import sync_pb2 as pb
from tests.integration.worker.served import ADMIN, open_site

TASK = "the-task"
TYPED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.FAILED_PRECONDITION,
}
KINDS = {"welcome", "ack", "offer", "renewed", "command", "lost", "pong", "error", "drain",
         "decided", "answer"}  # fmt: skip


class Bystander:
    """A worker that runs a task while others send nonsense."""

    def __init__(self, port: int) -> None:
        self._sent: SimpleQueue[bytes | None] = SimpleQueue()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._answers = _stream(self._channel, iter(self._sent.get, None))

    def ask(self, message: wire.WorkerMessage) -> Any:
        self._sent.put(codec.encode_worker(message).SerializeToString())
        return codec.decode_gateway(pb.GatewayMessage.FromString(next(self._answers)))

    def close(self) -> None:
        self._sent.put(None)
        self._channel.close()


def _stream(channel: grpc.Channel, messages: Iterator[bytes]) -> Any:
    call: Any = channel.stream_stream(f"/{SERVICE}/Sync", None, None)
    return call(messages, metadata=(("authorization", f"Bearer {ADMIN}"),), timeout=20)


class Site:
    """A server in a thread, with a task that a bystander runs."""

    def __init__(self, url: str, grpc_port: int) -> None:
        self.url = url
        self.grpc_port = grpc_port
        self.client = httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {ADMIN}"})
        self.client.post("/api/v1/tasks", json={"type": "work", "id": TASK})
        self.bystander = Bystander(grpc_port)
        self.bystander.ask(wire.Hello(worker_id="good", types=("work",), queues=("default",)))
        offer = self.bystander.ask(wire.Ask(claim_id="c", slots=1, lease_ms=3_600_000))
        assert [task.task_id for task in offer.tasks] == [TASK]
        self.before = self.task()

    def task(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.client.get(f"/api/v1/tasks/{TASK}").json()
        del shown["lease_remaining_seconds"]
        return shown

    def check(self) -> None:
        """The bystander is served, and its task is as it was."""
        assert self.bystander.ask(wire.Ping(n=7)).n == 7
        assert self.task() == self.before


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    ready: SimpleQueue[tuple[str, int]] = SimpleQueue()
    folder: Path = tmp_path_factory.mktemp("fuzz")
    stops: list[Any] = []

    async def serve() -> None:
        async with open_site(f"sqlite:///{folder}/holdfast.db") as made:
            stop = asyncio.Event()
            stops.extend((asyncio.get_running_loop(), stop))
            ready.put((made.listening.url, made.listening.worker_transports["grpc"]))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    made = Site(*ready.get(timeout=30))
    yield made
    made.bystander.close()
    made.client.close()
    loop, stop = stops
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)


numbers = st.sampled_from([0, 1, 2, 63, 2**31, 2**53 - 1])
words = st.one_of(
    st.sampled_from(["", "w1", "work", "default", "stdout", "completed"]), st.text(max_size=20)
)
ids = st.one_of(words, st.just(TASK))
changes = st.builds(
    wire.Changes,
    task=st.lists(
        st.builds(wire.TaskChange, task_id=ids, fence=numbers, status=words, result_json=words,
                  progress=st.floats()), max_size=2).map(tuple),
    output=st.lists(
        st.builds(wire.OutputChunk, task_id=ids, fence=numbers, stream=words,
                  data=st.binary(max_size=20), start=st.none() | numbers), max_size=2).map(tuple),
    metrics=st.lists(
        st.builds(wire.MetricsChange, task_id=ids, fence=numbers, cost=st.floats()), max_size=2
    ).map(tuple),
    checkpoint=st.lists(
        st.builds(wire.CheckpointChange, task_id=ids, fence=numbers, checkpoint_id=words,
                  data_json=words), max_size=2).map(tuple),
)  # fmt: skip
messages: st.SearchStrategy[Any] = st.one_of(
    st.builds(wire.Hello, worker_id=st.just("bad"), types=st.just(("none",)), incarnation=numbers,
              boot_id=words, protocol=words),
    st.just(wire.Hello(worker_id="bad", types=("none",), boot_id="b")),
    st.builds(wire.SyncMessage, sequence=numbers, incarnation=numbers, changes=changes),
    st.builds(wire.Ask, claim_id=words, slots=numbers.map(lambda n: n % 2**32), task_id=words),
    st.builds(wire.Renew, held=st.lists(st.builds(wire.HeldRunState, task_id=ids, fence=numbers),
                                        max_size=2).map(tuple)),
    st.builds(wire.CommandAck, id=words, outcome=words, detail=words),
    st.builds(wire.CallFrame, n=numbers, verb=words, task_id=ids, fence=numbers, args_json=words),
    st.builds(wire.Ping, n=numbers),
)  # fmt: skip


def encoded(message: Any) -> bytes:
    data: bytes = codec.encode_worker(message).SerializeToString()
    return data


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few changed, cut off or repeated."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        if made:
            made[draw(st.integers(0, len(made) - 1))] = draw(st.integers(0, 255))
    end = draw(st.integers(0, len(made)))
    return bytes(made[:end]) if draw(st.booleans()) else bytes(made) * 2


frames = st.lists(
    st.one_of(
        st.binary(max_size=60),
        messages.map(encoded),
        messages.flatmap(lambda message: mutated(encoded(message))),
    ),
    min_size=1,
    max_size=6,
)
quiet = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@quiet
@given(sent=frames)
def test_grpc_answers_whatever_it_gets(site: Site, sent: list[bytes]) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{site.grpc_port}") as channel:
        call = _stream(channel, iter(sent))
        try:
            for answer in call:
                codec.decode_gateway(pb.GatewayMessage.FromString(answer))
        except grpc.RpcError:
            pass
        assert call.code() in TYPED, (call.code(), call.details())
    site.check()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def json_frames(draw: st.DrawFn) -> str | bytes:
    """A frame: a message, a message with a field replaced, JSON of any kind, text, or bytes."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return draw(st.binary(max_size=20))
    if kind == 1:
        return draw(st.text(max_size=40))
    if kind == 2:
        return json.dumps(draw(json_values))
    value: dict[str, Any] = json.loads(_json(draw(messages)))
    if kind == 4:
        value[draw(st.sampled_from([*value, "extra"]))] = draw(json_values)
    return json.dumps(value)


def _json(message: Any) -> bytes:
    return msgspec.json.encode(message, enc_hook=lambda data: data.decode("latin-1"))


@quiet
@given(sent=st.lists(json_frames(), min_size=1, max_size=6))
def test_a_websocket_answers_whatever_it_gets(site: Site, sent: list[str | bytes]) -> None:
    url = site.url.replace("http", "ws") + "/api/v1/worker/ws"
    with connect(
        url,
        additional_headers={"Authorization": f"Bearer {ADMIN}"},
        subprotocols=[websockets.Subprotocol(wire.PROTOCOL)],
        proxy=None,
    ) as socket:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            _exchange(socket, sent)
        assert closed.value.rcvd is not None, "the connection was cut"
        assert closed.value.rcvd.code in {1000, *OF_ERROR.values()}, closed.value
    site.check()


def _exchange(socket: Any, sent: list[str | bytes]) -> None:
    """Sends frames and reads the answers until the server closes."""
    for frame in sent:
        socket.send(frame)
    socket.send('{"type": "goodbye"}')
    while True:
        assert json.loads(socket.recv(timeout=20))["type"] in KINDS


@quiet
@given(sent=st.lists(json_frames(), max_size=4), is_list=st.booleans())
def test_http_answers_whatever_it_gets(
    site: Site, sent: list[str | bytes], *, is_list: bool
) -> None:
    parts = [part if isinstance(part, bytes) else part.encode() for part in sent]
    body = b'{"messages": [' + b",".join(parts) + b"]}" if is_list else b"".join(parts)
    answer = site.client.post("/api/v1/worker/sync", content=body)
    assert answer.status_code < 500, answer.text
    assert {"messages", "code"} & set(answer.json())
    site.check()
