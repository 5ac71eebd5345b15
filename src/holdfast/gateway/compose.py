"""The composition of a gateway: the transports over its services, each built once.

`GatewayServices` has the use cases. This module puts over them what serves connections: the live feed, worker
sync and the HTTP application. The server and the simulator build their gateways here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from fastapi import FastAPI
from msgspec.structs import replace

from holdfast.fleet.fleet import FleetParts
from holdfast.fleet.secret_values import SecretValues
from holdfast.gateway.agent.mount import AgentMount
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.rest.app import make_app
from holdfast.gateway.rest.live import Live
from holdfast.gateway.rest.pages import Pages
from holdfast.gateway.services import GatewayServices, ServiceRules
from holdfast.gateway.settings import ServerSettings
from holdfast.gateway.worker.mount import WorkerMount
from holdfast.metrics import Metrics
from holdfast.queue.queue import Queue
from holdfast.web.files import Files


class Composition(NamedTuple):
    """The parts of one gateway that serve connections."""

    gateway: Gateway
    live: Live
    workers: WorkerMount
    agents: AgentMount

    @property
    def running(self) -> tuple[Callable[[], AbstractAsyncContextManager[None]], ...]:
        """What runs while connections are served, in the order in which it starts."""
        return (self.live.running, self.workers.running, self.agents.running)

    def app(self) -> FastAPI:
        """The HTTP application with all paths."""
        return make_app(
            self.gateway,
            extend=(
                self.live.extend,
                self.workers.extend,
                self.agents.extend,
                Pages(Files()).extend,
            ),
        )


async def open_services(
    queue: Queue, settings: ServerSettings, metrics: Metrics
) -> GatewayServices:
    """The services of a gateway with these settings. Opens the store of the queue."""
    timeout = queue.settings.progress_timeout
    rules = ServiceRules(
        hub=replace(settings.sync.rules, progress_timeout_seconds=timeout),
        redaction=settings.redaction(),
        expiry_seconds=settings.intervention.expiry_seconds,
        fleet=settings.fleet.rules,
        fleet_parts=FleetParts(
            secrets=SecretValues(settings.fleet.secrets),
            addresses=settings.webhooks.addresses,
            tolerance_seconds=settings.webhooks.tolerance_seconds,
            keep=settings.keep.fleet,
            ssh=settings.fleet.ssh,
        ),
    )
    return await GatewayServices.open(queue, metrics, rules)


def compose(services: GatewayServices, settings: ServerSettings) -> Composition:
    """The gateway over these services."""
    gateway = Gateway(services, settings)
    live = Live(gateway)
    feed = live.feed.broadcaster
    return Composition(gateway, live, WorkerMount(gateway, feed), AgentMount(gateway, feed))
