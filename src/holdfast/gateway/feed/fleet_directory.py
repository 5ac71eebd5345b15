"""The channels of jobs and hosts: their projects and snapshots.

Promises: a job is named by its id or its external id, a host by its id. A snapshot is what the REST resource
answers. Never: decides about access.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.core.access import Principal, visible_projects
from holdfast.core.channel import Channel, ChannelKind, ChannelObject
from holdfast.core.errors import AmbiguousId
from holdfast.core.fleet.model import Host, Job
from holdfast.errors import NotFound
from holdfast.fleet.fleet import Fleet
from holdfast.fleet.views.whole import whole_host, whole_job


class FleetDirectory:
    """The part of a `Directory` that is about the fleet."""

    def __init__(self, fleet: Fleet, now: Callable[[], float]) -> None:
        self._fleet = fleet
        self._now = now

    async def find(self, channel: Channel, principal: Principal) -> ChannelObject | None:
        if channel.kind is ChannelKind.HOST:
            host = await self._host(channel.name)
            return None if host is None else ChannelObject(host.project, channel.topic, host.id)
        job = await self._job(channel.name, principal)
        return None if job is None else ChannelObject(job.project, f"job:{job.id}")

    async def snapshot(self, found: ChannelObject) -> dict[str, Any] | None:
        """What is shown of the object. None: it is gone."""
        kind, _, name = found.topic.partition(":")
        if kind == ChannelKind.HOST:
            host = await self._host(name)
            return None if host is None else await whole_host(self._fleet, host, self._now())
        with suppress(NotFound):
            job = await self._fleet.job_reads.find(name)
            return (await whole_job(self._fleet, job, self._now()))[0]
        return None

    async def _host(self, host_id: str) -> Host | None:
        return (await self._fleet.hosts.pinned([host_id])).get(host_id)

    async def _job(self, name: str, principal: Principal) -> Job | None:
        projects = visible_projects(principal)
        with suppress(NotFound):
            return await self._fleet.job_reads.find(
                name, None if projects is None else sorted(projects)
            )
        # A job of a foreign project: the rules of access decide what is said about it.
        with suppress(NotFound, AmbiguousId):
            return await self._fleet.job_reads.find(name)
        return None
