"""The table of the fleet. It is part of `/api/v1`, and stands without a prefix too: `/hosts`, `/jobs`."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.client import fleet_models
from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations.fleet import blocks, groups, hosts
from holdfast.gateway.rest.fleet_jobs import JOB_ROUTES
from holdfast.gateway.rest.fleet_queries import OfProject, PagedOfProject, SearchOfProject
from holdfast.gateway.rest.route import Route


class HostsQuery(PagedOfProject, frozen=True, forbid_unknown_fields=True):
    """`q`: as in `rest/searching.py`, or without any key text that the names contain, which stands without a
    selector. `silent`: active hosts whose agents are not heard of, and nothing beside it."""

    selector: str | None = None
    state: str | None = None
    q: str | None = None
    silent: bool = False


class SelectQuery(OfProject, frozen=True, forbid_unknown_fields=True, kw_only=True):
    selector: str


class RemoveQuery(OfProject, frozen=True, forbid_unknown_fields=True):
    reason: str = ""
    expected_version: int | None = None


class BlocksQuery(SearchOfProject, frozen=True, forbid_unknown_fields=True):
    """`host`: those that count for a host now. `lifted`: the latest that are over."""

    host: str | None = None
    lifted: bool = False


class LiftQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str = ""
    expected_version: int | None = None


_HOSTS: Final = (
    Route(
        "GET",
        "/hosts",
        hosts.find,
        "List hosts",
        HostsQuery,
        operation=O.HOSTS_READ,
        is_list=True,
        items=fleet_models.HostRow,
        text_key="name",
    ),
    Route(
        "GET",
        "/hosts/select",
        hosts.select,
        "The hosts that a selector stands for",
        SelectQuery,
        operation=O.HOSTS_READ,
    ),
    Route(
        "POST",
        "/hosts/import",
        hosts.import_hosts,
        "Add and change many hosts",
        body=hosts.HostImportBody,
        operation=O.HOSTS_WRITE,
    ),
    Route("GET", "/hosts/{host}", hosts.get, "One host", OfProject, operation=O.HOSTS_READ),
    Route(
        "POST",
        "/hosts",
        hosts.add,
        "Add a host",
        body=hosts.HostBody,
        operation=O.HOSTS_WRITE,
        status=201,
    ),
    Route(
        "PATCH",
        "/hosts/{host}",
        hosts.change,
        "Change a host",
        OfProject,
        body=hosts.HostChange,
        operation=O.HOSTS_WRITE,
    ),
    Route(
        "DELETE",
        "/hosts/{host}",
        hosts.remove,
        "Remove a host",
        RemoveQuery,
        operation=O.HOSTS_WRITE,
    ),
)
_GROUPS: Final = (
    Route(
        "GET",
        "/groups",
        groups.find,
        "List groups of hosts",
        SearchOfProject,
        operation=O.HOSTS_READ,
        is_list=True,
        items=fleet_models.GroupView,
    ),
    Route("GET", "/groups/{group}", groups.get, "One group", OfProject, operation=O.HOSTS_READ),
    Route(
        "POST",
        "/groups",
        groups.add,
        "Add a group of hosts",
        body=groups.GroupBody,
        operation=O.HOSTS_WRITE,
        status=201,
    ),
    Route(
        "PATCH",
        "/groups/{group}",
        groups.change,
        "Give a group another selector",
        OfProject,
        body=groups.GroupChange,
        operation=O.HOSTS_WRITE,
    ),
    Route(
        "DELETE",
        "/groups/{group}",
        groups.remove,
        "Remove a group",
        RemoveQuery,
        operation=O.HOSTS_WRITE,
    ),
)
_BLOCKS: Final = (
    Route(
        "GET",
        "/blocks",
        blocks.find,
        "List blocks",
        BlocksQuery,
        operation=O.BLOCKS_READ,
        is_list=True,
        items=fleet_models.BlockRow,
    ),
    Route("GET", "/blocks/{block_id}", blocks.get, "One block", operation=O.BLOCKS_READ),
    Route(
        "POST",
        "/blocks",
        blocks.add,
        "Keep commands off hosts",
        body=blocks.BlockBody,
        operation=O.BLOCKS_WRITE,
        status=201,
    ),
    Route(
        "PATCH",
        "/blocks/{block_id}",
        blocks.change,
        "Change a block",
        body=blocks.BlockChange,
        operation=O.BLOCKS_WRITE,
    ),
    Route(
        "DELETE",
        "/blocks/{block_id}",
        blocks.lift,
        "Lift a block",
        LiftQuery,
        operation=O.BLOCKS_WRITE,
    ),
)
ROUTES: Final = (*_HOSTS, *_GROUPS, *_BLOCKS, *JOB_ROUTES)
