"""Rules that several faces of the hub show, and that stand in one place."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.client.models import SubmitOptions
from holdfast.core import codec, submit
from holdfast.core.gate import HELD, desired, of_decision
from holdfast.core.request import EnqueueRequest
from holdfast.core.task import Status
from holdfast.core.transition import Refusal
from holdfast.core.worker.wire import Changes, TaskChange
from holdfast.gateway.feed.feed import PONG_SECONDS
from holdfast.gateway.feed.requests import PING_SECONDS
from holdfast.gateway.operations.new_tasks import TaskBody
from holdfast.gateway.server import _uvicorn
from holdfast.gateway.settings import ServerSettings
from holdfast.queue import views
from holdfast.queue.views.tasks import NOT_SHOWN
from holdfast.sync.worker import refusals
from holdfast.sync.worker.plain import Inbound

TASK = submit.submit(EnqueueRequest(type="x"), task_id="0199", now=1.0).task


@pytest.mark.parametrize(
    ("status", "held_by", "gate", "state"),
    [
        (Status.QUEUED, None, None, "run"),
        (Status.RUNNING, None, None, "run"),
        (Status.QUEUED, "ann", HELD, "paused"),
        (Status.PAUSED, "ann", None, "paused"),
        (Status.PAUSED, None, of_decision("d1"), "paused"),
        (Status.COMPLETED, "ann", None, "run"),
    ],
)
def test_every_face_shows_the_same_desired_state(
    status: Status, held_by: str | None, gate: str | None, state: str
) -> None:
    task = replace(TASK, status=status, held_by=held_by, gate=gate)
    assert desired(task) == state
    assert views.task(task, 1.0)["desired"] == state
    change = TaskChange(task_id=task.id, fence=1)
    message = Inbound("w1", 1, 1, Changes(task=(change,)))
    refused = refusals.shown(change, message, Refusal(task.id, "fenced", ""), fence=1, task=task)
    assert codec.loads(refused.state_json)["desired"] == state


def test_the_server_waits_for_a_pong_as_long_as_the_docs_say() -> None:
    config = _uvicorn(None, ServerSettings(), asyncio.Event()).config
    assert (config.ws_ping_interval, config.ws_ping_timeout) == (PING_SECONDS, PONG_SECONDS)


def test_the_client_offers_the_options_that_the_server_takes() -> None:
    options = set(SubmitOptions.__annotations__) - {
        "delay",
        "timeout",
        "progress_timeout",
    }  # as in `enqueue`
    assert options == {*TaskBody.__struct_fields__} - {"type", "payload"}


def test_the_view_of_a_task_has_every_field_or_says_why_not() -> None:
    task = replace(TASK, assigned_to="n1", assigned_until=2.0, progress_due_at=3.0)
    view = views.task(task, 1.0)
    assert {*type(task).__struct_fields__} - {*view} == {*NOT_SHOWN}
    read = views.read_task(view)
    assert (read.assigned_to, read.assigned_until, read.progress_due_at) == ("n1", 2.0, 3.0)
