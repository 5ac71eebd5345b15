"""The offline node for callers that block."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from holdfast.client import BlockingClaim, BlockingClient, BlockingNode, Claim, Node
from holdfast.errors import BadConfig, Conflict, NotFound
from tests.integration.gateway.support import ADMIN


@pytest.fixture
def join(gateway: str) -> str:
    with BlockingClient(gateway, ADMIN) as client:
        token = client.tokens.create_join(uses=10).token
    assert token is not None
    return token


def test_a_task_is_created_claimed_and_completed(gateway: str, join: str, tmp_path: Path) -> None:
    folder = tmp_path / ".holdfast"
    with BlockingNode.open(folder, gateway=gateway, join_token=join, node_id="blocking") as node:
        assert (node.node_id, node.incarnation, node.lost) == ("blocking", None, [])
        node.create("made", payload={"n": 1}, labels=["x"])
        node.edit("made", metadata={"k": 1})
        assert node.pending() == 2
        assert node.sync().pushed == 1
        with node.claim("made") as claim:
            assert (claim.task_id, claim.fence, claim.is_lost) == ("made", 1, False)
            claim.progress(0.5, phase="edit")
            claim.metrics(tokens=3)
            claim.output("one\n")
            point = claim.checkpoint("half", {"n": 1})
            assert claim.next_command(timeout=0.01) is None
            claim.complete({"done": True})
        task = node.get("made")
        assert task is not None
        assert (task.status, task.result) == ("completed", {"done": True})
        assert [each.id for each in node.tasks()] == ["made"]
        with pytest.raises(Conflict):
            claim.output("more")
        with pytest.raises(NotFound):
            node.set_status("nothing", "completed")
        assert (node.conflicts(), node.dismiss()) == ([], 0)
    with BlockingClient(gateway, ADMIN) as client:
        assert b"".join(chunk.data for chunk in client.output("made")) == b"one\n"
        assert client.get("made").metrics == {"tokens": 3.0}
        assert point.startswith("ckp_")


def test_a_block_that_fails_reports_it(gateway: str, join: str, tmp_path: Path) -> None:
    with BlockingNode.open(tmp_path / "n", gateway=gateway, join_token=join) as node:
        node.create("failing")
        node.create("released")
        node.sync()
        with pytest.raises(ValueError, match="broken"), node.claim("failing"):
            raise ValueError("broken")
        with node.claim("released") as claim:
            assert claim.release("later")
        node.sync()
        statuses = {task.id: task.status for task in node.tasks()}
        assert statuses["failing"] == statuses["released"] == "queued"
    with BlockingClient(gateway, ADMIN) as client:
        assert client.get("failing").attempts == 1


def test_a_folder_that_cannot_be_opened(tmp_path: Path) -> None:
    folder = tmp_path / "n"
    BlockingNode.open(folder, gateway="http://gateway", project="a").close()
    with pytest.raises(BadConfig):
        BlockingNode.open(folder, project="b")
    BlockingNode.open(folder).close()


@pytest.mark.parametrize(("blocking", "other"), [(BlockingNode, Node), (BlockingClaim, Claim)])
def test_both_have_the_same_calls(blocking: type, other: type) -> None:
    """`lost` of a claim is an event of asyncio: a blocking one has `is_lost`."""
    own = {"take", "stop_renewal", "is_held", "lose", "next_command"}  # of a claim
    own |= {"end_run", "heartbeat_seconds"}  # what a node offers its claims
    for name, call in vars(other).items():
        if name.startswith("_") or name in own:
            continue
        front = inspect.getattr_static(blocking, name)
        if inspect.isfunction(call):
            theirs, ours = inspect.signature(call), inspect.signature(front)
            assert list(ours.parameters.values()) == list(theirs.parameters.values()), name
        elif isinstance(call, classmethod):
            theirs = inspect.signature(getattr(other, name))
            assert inspect.signature(getattr(blocking, name)).parameters == theirs.parameters
