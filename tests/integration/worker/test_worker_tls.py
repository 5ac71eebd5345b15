"""TLS and client certificates on gRPC and HTTPS, with an authority that the test makes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import httpx2
import pytest

from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import BadConfig
from tests.integration.remote.support import SECONDS, queue_with_handlers
from tests.integration.worker.served import (
    ADMIN,
    Certificate,
    Site,
    make_ca,
    make_certificate,
    open_site,
)


@pytest.fixture
def ca(tmp_path: Path) -> Certificate:
    return make_ca(tmp_path)


@pytest.fixture
async def site(tmp_path: Path, ca: Certificate) -> AsyncIterator[Site]:
    """A server that requires certificates of the authority from its clients."""
    own = make_certificate(tmp_path, ca, "server")
    async with open_site(
        f"sqlite:///{tmp_path}/holdfast.db",
        tls_cert=str(own.certificate),
        tls_key=str(own.key),
        client_ca=str(ca.certificate),
    ) as made:
        yield made


def credentials(ca: Certificate, own: Certificate | None) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        ca.certificate.read_bytes(),
        None if own is None else own.key.read_bytes(),
        None if own is None else own.certificate.read_bytes(),
    )


def context(ca: Certificate, own: Certificate | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(ca.certificate))
    if own is not None:
        made.load_cert_chain(own.certificate, own.key)
    return made


async def test_clients_with_a_certificate_are_served(
    site: Site, ca: Certificate, tmp_path: Path
) -> None:
    own = make_certificate(tmp_path, ca, "client")
    _, secret = await site.node_token("w1")
    async with site.grpc(secret, credentials(ca, own)) as worker:
        assert (await worker.hello()).node == "w1"
    async with site.client(verify=context(ca, own)) as client:
        assert (await client.get("/api/v1/whoami")).status_code == 200
        answer = await client.post("/api/v1/worker/sync", json={"messages": [{"type": "ping"}]})
        assert answer.status_code == 200


@pytest.mark.parametrize("kind", ["none", "foreign"])
async def test_clients_without_a_certificate_of_the_authority_are_refused(
    site: Site, ca: Certificate, tmp_path: Path, kind: str
) -> None:
    own = None
    if kind == "foreign":
        own = make_certificate(tmp_path, make_ca(tmp_path, "other"), "stranger")
    _, secret = await site.node_token("w1")
    async with site.grpc(secret, credentials(ca, own)) as worker:
        assert await worker.receive() is None
        assert await worker.status() is grpc.StatusCode.UNAVAILABLE
    async with site.client(verify=context(ca, own)) as client:
        with pytest.raises((httpx2.TransportError, ssl.SSLError)):
            await client.get("/api/v1/whoami")
    # Without TLS nothing is spoken at all.
    async with site.grpc(secret) as worker:
        assert await worker.receive() is None
        assert await worker.status() is grpc.StatusCode.UNAVAILABLE


async def test_a_client_refuses_a_server_of_another_authority(
    tmp_path: Path, ca: Certificate
) -> None:
    own = make_certificate(tmp_path, ca, "server")
    stranger = make_ca(tmp_path, "other")
    async with open_site(
        f"sqlite:///{tmp_path}/holdfast.db",
        tls_cert=str(own.certificate),
        tls_key=str(own.key),
    ) as site:
        _, secret = await site.node_token("w1")
        async with site.grpc(secret, credentials(stranger, None)) as worker:
            assert await worker.receive() is None
            assert await worker.status() is grpc.StatusCode.UNAVAILABLE
        async with site.grpc(secret, credentials(ca, None)) as worker:
            assert (await worker.hello()).node == "w1"


def address(scheme: str, site: Site, ca: Certificate, own: Certificate | None) -> str:
    files = f"?ca={ca.certificate}"
    if own is not None:
        files += f"&cert={own.certificate}&key={own.key}"
    return f"{scheme}://127.0.0.1:{site.listening.port}{files}"


@pytest.mark.parametrize("scheme", ["holdfasts", "grpcs"])
async def test_a_remote_queue_shows_its_certificate(
    site: Site, ca: Certificate, tmp_path: Path, scheme: str
) -> None:
    """Producer and worker, over HTTPS and WebSocket or gRPC."""
    own = make_certificate(tmp_path, ca, "client")
    async with queue_with_handlers(address(scheme, site, ca, own), token=ADMIN) as queue:
        assert await (await queue.enqueue("add", {"a": 1, "b": 2})).result(SECONDS) == 3
    stranger = make_ca(tmp_path, "other")
    foreign = make_certificate(tmp_path, stranger, "stranger")
    cases = (
        (ca, None, GatewayUnavailable),
        (ca, foreign, GatewayUnavailable),
        (stranger, own, BadConfig),
    )
    for authority, shown, error in cases:
        refused = queue_with_handlers(address(scheme, site, authority, shown), token=ADMIN)
        with pytest.raises(error):
            await refused.start()
        await refused.stop()


@pytest.mark.parametrize("options", ["?ca=/none", "?key=x", "?colour=red", "?grpc_port=0"])
def test_wrong_options_of_an_address_are_refused(options: str) -> None:
    with pytest.raises(BadConfig):
        queue_with_handlers(f"grpcs://127.0.0.1:1{options}", token=ADMIN)
