"""The WebSocket of an agent at a real gateway: one connection, given-up calls, cuts, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.agent.websocket import WebSocketTransport
from holdfast.client.http import Http, fresh_ids
from holdfast.clock import SystemClock
from holdfast.core.errors import GatewayUnavailable, NodeFenced, Unauthenticated
from holdfast.core.fleet.agents.wire import AgentSync
from holdfast.errors import InvalidInput
from proof.lab.proxy import Proxy
from tests.integration.gateway.test_agents import Host, host, job
from tests.integration.worker.served import Site, open_site


@asynccontextmanager
async def transport(url: str, credential: str) -> AsyncIterator[WebSocketTransport]:
    made = WebSocketTransport(Http([url], credential, SystemClock(), fresh_ids(), tries=1))
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def behind_proxy(site: Site) -> AsyncIterator[tuple[Host, Proxy, WebSocketTransport]]:
    async with (
        host(site) as agent,
        Proxy(site.listening.port) as proxy,
        transport(f"http://127.0.0.1:{proxy.port}", agent.credential) as made,
    ):
        yield agent, proxy, made


def sync(agent: Host, seq: int, **parts: float) -> AgentSync:
    given = {"incarnation": agent.incarnation, **parts}
    return AgentSync(boot_id="b0", seq=seq, **given)  # type: ignore[arg-type]


async def test_a_call_that_is_given_up_keeps_the_connection(url: str) -> None:
    async with open_site(url) as site, behind_proxy(site) as (agent, proxy, made):
        assert (await made.sync(sync(agent, 1))).seq == 1
        held = asyncio.create_task(made.sync(sync(agent, 2, wait_seconds=20.0)))
        await asyncio.wait({held}, timeout=0.2)
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        [execution] = await job(site, agent)
        answer = await made.sync(sync(agent, 3, wait_seconds=20.0))
        assert answer.seq == 3
        answer = answer if answer.offers else await made.sync(sync(agent, 4))
        assert [offer.execution for offer in answer.offers] == [execution]
        assert proxy.links == 1


async def test_a_cut_connection_is_made_again(url: str) -> None:
    async with open_site(url) as site, behind_proxy(site) as (agent, proxy, made):
        await made.sync(sync(agent, 1))
        held = asyncio.create_task(made.sync(sync(agent, 2, wait_seconds=20.0)))
        await asyncio.wait({held}, timeout=0.2)
        proxy.cut()
        with pytest.raises(GatewayUnavailable):
            await held
        with pytest.raises(GatewayUnavailable):
            await made.sync(sync(agent, 3))
        proxy.heal()
        assert (await made.sync(sync(agent, 4))).seq == 4


async def test_refusals_are_typed(url: str) -> None:
    async with open_site(url) as site, behind_proxy(site) as (agent, _, made):
        await made.sync(sync(agent, 1))
        with pytest.raises(InvalidInput):
            await made.sync(sync(agent, -1))
        assert (await made.sync(sync(agent, 2))).seq == 2, "the connection stays"
        with pytest.raises(NodeFenced):
            await made.sync(sync(agent, 3, incarnation=agent.incarnation + 7))
        async with transport(site.listening.url, "hf_node_" + "x" * 43) as stranger:
            with pytest.raises(Unauthenticated):
                await stranger.sync(sync(agent, 1))


async def test_a_server_that_passes_no_websocket_is_named() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, transport(f"http://127.0.0.1:{port}", "hf_node_" + "x" * 43) as made:
        with pytest.raises(GatewayUnavailable, match="--transport http"):
            await made.sync(AgentSync(boot_id="b0", incarnation=1, seq=1))
