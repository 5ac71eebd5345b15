"""What an agent takes for an answer of a gateway."""

from __future__ import annotations

import random

import httpx2
import pytest

from holdfast.agent.http import HttpTransport
from holdfast.client.http import Http
from holdfast.clock import VirtualClock
from holdfast.core.errors import (
    Forbidden,
    GatewayUnavailable,
    NodeFenced,
    TooLarge,
    Unauthenticated,
)
from holdfast.core.fleet.agents.wire import AgentStart, AgentSync
from holdfast.core.ids import Ids
from holdfast.errors import HoldfastError, NotFound

URLS = ["http://a.test", "http://b.test"]


def transport_of(answer: httpx2.Response) -> tuple[HttpTransport, Http]:
    http = Http(
        URLS,
        "hf_agent_" + "a" * 43,
        VirtualClock(),
        Ids(random.Random(1)),
        tries=1,
        transport=httpx2.MockTransport(lambda _: answer),
    )
    return HttpTransport(http), http


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 422, 500, 501, 502, 503])
async def test_a_page_of_a_proxy_is_no_answer_and_the_next_gateway_is_asked(status: int) -> None:
    page = httpx2.Response(status, html="<html><h1>nginx</h1></html>")
    transport, http = transport_of(page)
    with pytest.raises(GatewayUnavailable, match=str(status)):
        await transport.sync(AgentSync(boot_id="b", incarnation=1, seq=1))
    assert http.url == URLS[1]
    with pytest.raises(GatewayUnavailable):
        await transport.start(AgentStart(boot_id="b", journal_id="j"))


@pytest.mark.parametrize("kind", [NodeFenced, Unauthenticated, Forbidden, NotFound])
async def test_the_refusal_of_a_gateway_is_one(kind: type[HoldfastError]) -> None:
    problem = {"code": kind.code, "detail": "no", "status": kind.http_status}
    transport, _ = transport_of(httpx2.Response(kind.http_status, json=problem))
    with pytest.raises(kind):
        await transport.sync(AgentSync(boot_id="b", incarnation=1, seq=1))


async def test_a_proxy_that_takes_no_large_bodies_gets_smaller_ones() -> None:
    transport, _ = transport_of(httpx2.Response(413, html="<html>nginx</html>"))
    with pytest.raises(TooLarge):
        await transport.sync(AgentSync(boot_id="b", incarnation=1, seq=1))
