"""The rules of a watcher, alone and together with the rules of the server's subscription."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.core.close_codes import CloseAction
from holdfast.core.event import Position
from holdfast.core.subscription import (
    FeedBounds,
    StreamCursor,
    after_bookmark,
    after_frame,
    after_reading,
    bookmark_at,
    reset_reason,
    start_at,
)
from holdfast.core.watching import (
    BACKOFF_SECONDS_MAX,
    RETRY_AFTER_SECONDS_MAX,
    Watching,
    WatchStep,
    after_refusal,
    backoff_seconds,
    connected,
    received,
    subscribe_frame,
)

Frame = dict[str, Any]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("e1:3"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


class Server:
    """One connection of a feed whose transactions a test writes: frames by `core/subscription.py`."""

    def __init__(self) -> None:
        self.epoch = "e1"
        self.oldest = 0
        self.matches: list[bool] = []
        """Whether the event at each offset matches the subscription."""
        self.parts = 2

    @property
    def head(self) -> int:
        return self.oldest + len(self.matches)

    def at(self, offset: int) -> str:
        return f"{self.epoch}:{offset}"

    def subscribe(self, request: Frame) -> Session:
        given = request.get("position")
        bounds = FeedBounds(Position(self.epoch, self.oldest), Position(self.epoch, self.head))
        if given in (None, "now"):
            return Session(self, self.head, self.parts if given is None else 0)
        reason = reset_reason(Position.parse(given), bounds)
        if reason is not None:
            session = Session(self, self.head, 0)
            session.frames = [{"type": "reset", "reason": reason.value}]
            session.is_over = True
            return session
        return Session(self, Position.parse(given).offset, 0, mode="replay")


class Session:
    """The server's side of one subscription: a cursor and frames under way."""

    def __init__(self, server: Server, start: int, parts: int, mode: str = "live") -> None:
        self.server = server
        self.epoch = server.epoch
        self.cursor: StreamCursor = start_at(start)
        self.is_over = False
        self.is_new = True
        at = server.at(start)
        self.frames: list[Frame] = [
            {"type": "subscribed", "mode": "snapshot" if parts else mode, "position": at}
        ]
        for part in range(1, parts + 1):
            self.frames.append(
                {"type": "snapshot", "position": at, "part": part, "last": part == parts}
            )

    def pump(self) -> None:
        """Reads everything up to the head, and writes a bookmark when one is due."""
        server = self.server
        if self.is_over or self.epoch != server.epoch:
            return
        if self.cursor.read < server.oldest:
            self.frames.append({"type": "reset", "reason": "pruned"})
            self.is_over = True
            return
        while self.cursor.read < server.head:
            offset = self.cursor.read + 1
            if server.matches[offset - server.oldest - 1]:
                self.write("task.progress", offset)
                self.cursor = after_frame(self.cursor, offset)
            else:
                self.cursor = after_reading(self.cursor, offset)
        due = bookmark_at(self.cursor, server.head, live=self.is_new)
        if due is not None:
            self.write("bookmark", due, live=self.is_new)
            self.cursor = after_bookmark(self.cursor, due)
        self.is_new = False

    def write(self, kind: str, offset: int, **fields: Any) -> None:
        prev, position = self.server.at(self.cursor.last), self.server.at(offset)
        self.frames.append({"type": kind, "prev": prev, "position": position, **fields})


class WatcherAndServer(RuleBasedStateMachine):
    """Any interleaving of commits, disconnects, lost, repeated and delayed frames, pruning and new epochs.

    Law: what is shown between two resets or snapshots is every matching event after its start, once, in
    order."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.state = Watching()
        self.session: Session | None = None
        self.is_snapshot = True
        self.start: tuple[str, int] | None = None
        """The epoch and offset that the shown events come after."""
        self.shown: list[int] = []
        self.parts: list[int] = []
        self.resets = 0

    @rule(events=st.lists(st.booleans(), min_size=1, max_size=4))
    def commit(self, events: list[bool]) -> None:
        self.server.matches += events

    @precondition(lambda self: self.session is None)
    @rule()
    def connect(self) -> None:
        self.state = connected(self.state)
        self.subscribe()

    def subscribe(self) -> None:
        request = subscribe_frame(self.state, "task:t", snapshot=self.is_snapshot)
        assert request.get("position") in (None, "now") or self.state.position is not None
        self.session = self.server.subscribe(request)

    @precondition(lambda self: self.session is not None)
    @rule()
    def pump(self) -> None:
        assert self.session is not None
        self.session.pump()

    @precondition(lambda self: self.session is not None)
    @rule()
    def disconnect(self) -> None:
        """The frames under way are lost."""
        self.session = None

    @precondition(lambda self: self.session is not None and self.session.frames)
    @rule(index=st.integers(0, 5))
    def lose_a_frame(self, index: int) -> None:
        assert self.session is not None
        frames = self.session.frames
        del frames[index % len(frames)]

    @precondition(lambda self: self.session is not None and self.session.frames)
    @rule(index=st.integers(0, 5))
    def repeat_a_frame(self, index: int) -> None:
        assert self.session is not None
        frames = self.session.frames
        frames.insert(index % len(frames), dict(frames[index % len(frames)]))

    @precondition(lambda self: self.session is not None and len(self.session.frames) > 1)
    @rule(index=st.integers(0, 5))
    def swap_frames(self, index: int) -> None:
        assert self.session is not None
        frames = self.session.frames
        at = index % (len(frames) - 1)
        frames[at], frames[at + 1] = frames[at + 1], frames[at]

    @rule(through=st.integers(0, 20))
    def prune(self, through: int) -> None:
        server = self.server
        through = max(server.oldest, min(through, server.head))
        del server.matches[: through - server.oldest]
        server.oldest = through

    @rule()
    def restore(self) -> None:
        """The history is replaced; the server ends the subscription."""
        self.server.epoch = f"e{int(self.server.epoch[1:]) + 1}"
        self.server.matches, self.server.oldest = [], 0
        if self.session is not None:
            self.session.frames.append({"type": "reset", "reason": "epoch"})
            self.session.is_over = True

    @precondition(lambda self: self.session is not None and self.session.frames)
    @rule(count=st.integers(1, 6))
    def receive(self, count: int) -> None:
        for _ in range(count):
            if self.session is None or not self.session.frames:
                return
            self.take(self.session.frames.pop(0))

    def take(self, frame: Frame) -> None:
        before = self.state
        self.state, step = received(self.state, frame)
        if step is WatchStep.RECONNECT:
            assert self.state.position == before.position
            self.session = None
        elif step is WatchStep.START_OVER:
            self.is_snapshot = True
            self.start = None
            self.resets += 1
            if self.session is not None and not self.session.frames:
                self.subscribe()
            else:
                self.session = None
        elif step is WatchStep.SHOW:
            self.show(frame)

    def show(self, frame: Frame) -> None:
        position = Position.parse(frame["position"])
        if frame["type"] == "snapshot":
            self.parts = [*self.parts, frame["part"]] if frame["part"] > 1 else [1]
            if frame["last"]:
                assert self.parts == list(range(1, self.server.parts + 1))
                self.start, self.shown = (position.epoch, position.offset), []
            return
        assert self.start is not None
        assert self.start[0] == position.epoch
        self.shown.append(position.offset)

    @invariant()
    def each_event_once_and_in_order(self) -> None:
        if self.start is None or self.start[0] != self.server.epoch:
            return
        assert self.shown == sorted(set(self.shown))
        server = self.server
        least = max(self.start[1], server.oldest)
        position = Position.parse(self.state.position or f"x:{least}")
        if self.state.position is None:
            return
        expected = [
            offset
            for offset in range(least + 1, position.offset + 1)
            if server.matches[offset - server.oldest - 1]
        ]
        assert [offset for offset in self.shown if offset > least] == expected

    def teardown(self) -> None:
        """After its next reconnect the watcher gets everything."""
        self.session = None
        for _ in range(3):
            if self.session is not None and self.session.is_over and not self.session.frames:
                self.session = None
            if self.session is None or self.session.epoch != self.server.epoch:
                self.session = None
                self.connect()
            for _ in range(4):
                if self.session is not None:
                    self.session.pump()
                    self.receive(10_000)
        self.each_event_once_and_in_order()
        if self.session is not None:
            assert self.state.position == self.server.at(self.server.head)
            assert self.state.is_live


WatcherAndServer.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestWatcherAndServer = WatcherAndServer.TestCase


@given(
    st.sampled_from([Watching(), Watching("e1:2", "e1:2"), Watching(None, "e1:2", False, 0)]),
    st.dictionaries(
        st.sampled_from(["type", "position", "prev", "part", "last", "mode", "live", "x"]),
        json_values | st.sampled_from(["bookmark", "snapshot", "subscribed", "task.done", "error"]),
    ),
)
def test_no_frame_is_an_exception(state: Watching, frame: Frame) -> None:
    after, step = received(state, frame)
    if step in (WatchStep.NOTHING, WatchStep.RECONNECT) and frame.get("type") not in (
        "subscribed",
        "bookmark",
    ):
        assert after == state


def test_a_snapshot_that_was_cut_off_is_asked_for_again() -> None:
    state, _ = received(Watching(), {"type": "subscribed", "mode": "snapshot", "position": "e1:7"})
    state, step = received(
        state, {"type": "snapshot", "position": "e1:7", "part": 1, "last": False}
    )
    assert step is WatchStep.SHOW
    assert "position" not in subscribe_frame(connected(state), "task:t", snapshot=True)


def test_a_server_that_continues_elsewhere_is_left() -> None:
    frame = {"type": "subscribed", "mode": "replay", "position": "e1:9"}
    assert received(Watching("e1:7"), frame)[1] is WatchStep.RECONNECT
    assert received(Watching("e1:9"), frame)[1] is WatchStep.NOTHING


@pytest.mark.parametrize(
    ("status", "action"),
    [
        (400, CloseAction.GIVE_UP),
        (401, CloseAction.LOG_IN),
        (403, CloseAction.FORBIDDEN),
        (404, CloseAction.GIVE_UP),
        (429, CloseAction.RECONNECT),
        (502, CloseAction.RECONNECT),
        (503, CloseAction.RECONNECT),
    ],
)
def test_refusals_of_the_connection(status: int, action: CloseAction) -> None:
    assert after_refusal(status) is action


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True), json_values | st.floats())
def test_every_pause_is_bounded(failures: int, jitter: float, retry_after_ms: object) -> None:
    seconds = backoff_seconds(failures, jitter, retry_after_ms)
    assert 0 <= seconds <= max(BACKOFF_SECONDS_MAX, RETRY_AFTER_SECONDS_MAX)


def test_the_server_names_the_pause() -> None:
    assert backoff_seconds(9, 0.9, 1500) == 1.5
    assert backoff_seconds(0, 0.5) == 0.125
    assert backoff_seconds(3, 0.5) == 1.0
