"""The APIs of a gateway in one table: where each is mounted, and its routes.

The right that a call needs is the `operation` of its route. Connections that stay open have their paths here
too: they authorise by channel, or by the node that speaks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.gateway.rest import agent, fleet, sync_v2, v1
from holdfast.gateway.rest.route import Match, Routes

FEED_WEBSOCKET: Final = f"{v1.PREFIX}/ws"
FEED_STREAM: Final = f"{v1.PREFIX}/stream"
FEED_POLL: Final = f"{v1.PREFIX}/poll"
WORKER_WEBSOCKET: Final = f"{v1.PREFIX}/worker/ws"
AGENT_WEBSOCKET: Final = f"{agent.PREFIX}/ws"
WORKER_HTTP: Final = f"{v1.PREFIX}/worker/sync"


class ApiTable(NamedTuple):
    """One API."""

    prefix: str
    routes: Routes
    has_error_names: bool = False
    """Whether refusals have the names of the sync protocol beside the problem details (`sync_api`)."""


APIS: Final = (
    ApiTable(v1.PREFIX, Routes(v1.ROUTES)),
    ApiTable(sync_v2.PREFIX, Routes(sync_v2.ROUTES), has_error_names=True),
    ApiTable(agent.PREFIX, Routes(agent.ROUTES)),
)
FLEET: Final = Routes(fleet.ROUTES)
"""The calls of the fleet, which have their paths without a prefix too, for callers that know only those."""
FLEET_PATHS: Final = sorted({f"/{route.segments[0]}" for route in FLEET.all})


def find_route(method: str, path: str) -> Match | None:
    """The route of a whole path, in whichever API it is."""
    for api in APIS:
        if path.startswith(f"{api.prefix}/"):
            match = api.routes.find(method, path.removeprefix(api.prefix))
            if isinstance(match, Match):
                return match
    match = FLEET.find(method, path)
    return match if isinstance(match, Match) else None
