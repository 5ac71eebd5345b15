"""Claims of an offline node beside the straight way: claims that are lost, repeated, fenced, cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from holdfast.client.http import TRIES
from holdfast.client.node.claim import Claim
from holdfast.client.node.report_log import HeldClaim
from holdfast.client.node.start import CLAIMS_MAX, RETURNS_MAX
from holdfast.clock import SystemClock
from holdfast.core.errors import AlreadyLocked, NodeFenced
from holdfast.errors import InvalidInput, LeaseLost, QueueFull
from tests.feed_support import WAIT_SECONDS
from tests.integration.client.test_node import Lab, Link, lab, site
from tests.integration.client.test_node_reports import node_with_task, output, reopened

__all__ = ["lab", "site"]


class SteppedClock(SystemClock):
    """A clock whose waits take no time, but move it."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self._marks: list[tuple[float, asyncio.Event]] = []

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if not event.is_set():
            self.at += seconds
        for at, mark in self._marks:
            if self.at >= at:
                mark.set()
        await asyncio.sleep(0)
        return event.is_set()

    async def until(self, at: float) -> None:
        mark = asyncio.Event()
        self._marks.append((at, mark))
        await mark.wait()


class Answering(httpx2.AsyncBaseTransport):
    """The way to a gateway that refuses calls of one kind."""

    def __init__(self, link: Link, call: str, times: int, problem: dict[str, Any]) -> None:
        self._inner, link._inner = link._inner, self  # type: ignore[assignment]
        self._call, self._left, self._problem = call, times, problem
        self.refused, self.passed = asyncio.Event(), asyncio.Event()
        """Set after the last refusal, and when such a call has passed."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith(self._call):
            return await self._inner.handle_async_request(request)
        if self._left:
            self._left -= 1
            if not self._left:
                self.refused.set()
            return httpx2.Response(self._problem["status"], json=self._problem)
        answer = await self._inner.handle_async_request(request)
        self.passed.set()
        return answer


async def intervene(lab: Lab, kind: str, name: str = "task-1") -> str:
    answer = await lab.site.client.post(
        "/api/v2/sync/intervene",
        json={"type": kind, "taskId": name, "projectId": "proj", "reason": "a test"},
        headers={"Authorization": f"Bearer {await lab.site.token('operator')}"},
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["intervention"]["id"])


async def start_elsewhere(lab: Lab, resume: list[dict[str, Any]], boot_id: str = "earlier") -> None:
    """A registration of the node by another process: an earlier one that comes late, or a copy."""
    link = lab.links["a"]
    credential = lab.nodes[-1]._start.identity.credential
    body = {
        "nodeId": "a", "nodeType": "plugin", "projectId": "proj", "bootId": boot_id, "resume": resume,
        "capabilities": ["execute", "sync", "fence"],
    }  # fmt: skip
    async with httpx2.AsyncClient(transport=link._inner, base_url="http://gateway") as client:
        answer = await client.post(
            "/api/v2/sync/nodes/register",
            json=body,
            headers={"Authorization": f"Bearer {credential}"},
        )
    assert answer.status_code == 200, answer.text


async def task(lab: Lab, name: str = "task-1") -> tuple[str, Any]:
    shown = (await lab.site.ask("GET", f"/tasks/{name}")).json()
    return shown["status"], shown["result"]


# -- the start ----------------------------------------------------------------------------------------


async def test_a_late_registration_of_an_earlier_process_stops_no_node(lab: Lab) -> None:
    node = await node_with_task(lab)
    await start_elsewhere(lab, [])
    node.edit("task-1", metadata={"n": 1})
    report = await node.sync()
    assert (report.pushed, report.refused, node.incarnation) == (1, 0, 3)


async def test_a_claim_goes_on_after_the_node_has_registered_again(lab: Lab) -> None:
    node = await node_with_task(lab)
    claim = await node.claim("task-1")
    await claim.output("one ")
    await node.sync()
    await start_elsewhere(lab, [{"taskId": "task-1", "fence": claim.fence}])
    await claim.output("two")
    await claim.complete("done")
    assert await task(lab) == ("completed", "done")
    assert await output(lab) == "one two"
    assert (claim.lost.is_set(), node.conflicts()) == (False, [])


async def test_a_run_that_another_start_has_ended_is_lost_to_its_claim(lab: Lab) -> None:
    node = await node_with_task(lab)
    claim = await node.claim("task-1")
    await start_elsewhere(lab, [])
    await node.sync()
    assert await task(lab) == ("queued", None)
    async with asyncio.timeout(WAIT_SECONDS):
        claim.progress(0.5)
        await claim.lost.wait()


async def test_a_copy_of_the_folder_ends_the_turns(lab: Lab) -> None:
    """The server finds out those that take turns quickly."""
    node, link = await node_with_task(lab), lab.links["a"]
    Answering(
        link, "/handshake/proj", 100, {"code": "node-fenced", "status": 409, "detail": "ended"}
    )
    for _ in range((RETURNS_MAX + 1) // 2):
        with pytest.raises(NodeFenced, match="ended"):
            await node.sync()
    registered = link.paths.count("/api/v2/sync/nodes/register")
    for _ in range(2):
        with pytest.raises(NodeFenced, match="copy of its folder"):
            await node.sync()
    assert link.paths.count("/api/v2/sync/nodes/register") <= registered + 1


async def test_a_node_has_no_more_claims_than_a_start_can_name(lab: Lab) -> None:
    node = await node_with_task(lab)
    for n in range(CLAIMS_MAX):
        node._journal.keep_claim(HeldClaim(f"other-{n}", f"claim-{n}", 1))
    with pytest.raises(QueueFull, match="sync"):
        await node.claim("task-1")
    again = await reopened(lab, node)
    await again.sync()
    assert again.incarnation == 2


# -- several claims of one task ------------------------------------------------------------------------


async def test_a_lost_claim_does_not_touch_the_next_one(lab: Lab) -> None:
    node = await node_with_task(lab)
    async with asyncio.timeout(WAIT_SECONDS), await node.claim("task-1") as first:
        await intervene(lab, "RELEASE_LOCK")
        first.progress(0.1)
        await first.lost.wait()
        second = await node.claim("task-1")
        await second.output("one ")
        await node.sync()
        await first.complete("of the first run")
        assert await task(lab) == ("running", None)
    # Its end is evidence of the first run, and the second one goes on where it was.
    [late] = node.conflicts()
    assert late.change["fence"] == first.fence < second.fence
    await second.output("two")
    await second.complete("of the second run")
    assert await task(lab) == ("completed", "of the second run")
    assert await output(lab) == "one two"
    assert len(node.conflicts()) == 1


async def test_a_node_claims_a_task_once(lab: Lab) -> None:
    node = await node_with_task(lab)
    answers = await asyncio.gather(
        node.claim("task-1"), node.claim("task-1"), return_exceptions=True
    )
    [claim] = [answer for answer in answers if isinstance(answer, Claim)]
    assert [type(each) for each in answers if each is not claim] == [AlreadyLocked]
    with pytest.raises(AlreadyLocked, match="this node"):
        await node.claim("task-1")
    await claim.release()
    assert (await node.claim("task-1")).fence > claim.fence


async def test_a_start_goes_on_with_the_latest_run_of_a_task(lab: Lab) -> None:
    node, link = await node_with_task(lab), lab.links["a"]
    first = await node.claim("task-1")
    link.is_cut = True
    await first.output("of the first run")
    await first.release()
    link.is_cut = False
    await intervene(lab, "RELEASE_LOCK")
    second = await node.claim("task-1")
    again = await reopened(lab, node)
    await again.sync()
    assert again.lost == []
    assert await task(lab) == ("running", None)
    assert (await again.claim("task-1")).fence == second.fence


async def test_two_syncs_at_once_keep_a_refusal_once(lab: Lab) -> None:
    node = await node_with_task(lab)
    node.set_status("task-1", "completed")
    await asyncio.gather(node.sync(), node.sync())
    assert len(node.conflicts()) == 1


# -- the lease ------------------------------------------------------------------------------------------


async def test_a_renewal_is_tried_until_the_lease_ends(lab: Lab) -> None:
    clock = SteppedClock()
    node = await lab.node("a", clock=clock)
    link = lab.links["a"]
    node.create("task-1")
    await node.sync()
    claim = await node.claim("task-1", 300.0)
    link.is_cut = True
    async with asyncio.timeout(WAIT_SECONDS):
        # The last try but one is at 1245 to 1270: its jitter follows the id of the claim, which is drawn.
        await clock.until(1_200.0)
        link.is_cut = False
        await clock.until(1_400.0)
        assert not claim.lost.is_set()
        link.is_cut = True
        await claim.lost.wait()
    assert claim.lost_reason == "expired"


async def test_a_claim_is_lost_before_its_lease_ends_in_the_store(lab: Lab) -> None:
    """Two clocks drift apart."""
    clock = SteppedClock()
    node = await lab.node("a", clock=clock)
    node.create("task-1")
    await node.sync()
    asked_at = clock.at
    claim = await node.claim("task-1", 300.0)
    lab.links["a"].is_cut = True
    async with asyncio.timeout(WAIT_SECONDS):
        await claim.lost.wait()
    assert clock.at < asked_at + 297.5


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        (TRIES, {"code": "rate-limited", "status": 429, "retryable": True, "detail": "too many"}),
        (1, {"code": "internal", "status": 500, "retryable": False, "detail": "a fault"}),
    ],
    ids=["rate", "fault"],
)
async def test_an_error_of_the_gateway_ends_no_claim(
    lab: Lab, times: int, problem: dict[str, Any]
) -> None:
    node, link = await node_with_task(lab), lab.links["a"]
    claim = await node.claim("task-1")
    way = Answering(link, "/heartbeat", times, problem)
    async with asyncio.timeout(WAIT_SECONDS):
        claim.progress(0.3)
        await way.refused.wait()
        claim.progress(0.4)
        await way.passed.wait()
    assert not claim.lost.is_set()
    await claim.complete()


async def test_what_became_of_a_command_is_sent_after_the_claim_is_lost(lab: Lab) -> None:
    node = await node_with_task(lab)
    async with asyncio.timeout(WAIT_SECONDS), await node.claim("task-1") as claim:
        act = await intervene(lab, "PAUSE")
        claim.progress(0.1)
        command = await claim.next_command()
        claim.acknowledge(command, "done", "stopped at page 3")
        with pytest.raises(LeaseLost):
            await claim.next_command()
    shown = (await lab.site.ask("GET", f"/interventions/{act}")).json()
    assert (shown["state"], shown["detail"]) == ("applied", "stopped at page 3")


async def test_leaving_the_block_acknowledges_commands(lab: Lab) -> None:
    node = await node_with_task(lab)
    async with asyncio.timeout(WAIT_SECONDS), await node.claim("task-1") as claim:
        act = await intervene(lab, "ABORT")
        claim.progress(0.1)
        await claim.lost.wait()
    shown = (await lab.site.ask("GET", f"/interventions/{act}")).json()
    assert shown["state"] == "applied"


@pytest.mark.parametrize("name", ["", "x" * 100_000, "a\ud800b", 5])
async def test_the_name_of_a_task_is_checked_here(lab: Lab, name: Any) -> None:
    node = await node_with_task(lab)
    with pytest.raises(InvalidInput, match="task_id"):
        await node.claim(name)
    with pytest.raises(InvalidInput, match="lease_seconds"):
        await node.claim("task-1", float("nan"))
    assert node._journal.claims() == []
