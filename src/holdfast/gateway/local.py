"""The operations of a gateway in the process of its store: for the command line without a gateway.

Promises: a call is judged, audited and answered like a request to a gateway, by the same operation. The
principal is the user of this process, who has the rights of an administrator: access to the database is
access to everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from holdfast.client.calls import Answer, encoded, text_of
from holdfast.core.access import ALL_PROJECTS, Principal
from holdfast.core.rights import PrincipalKind, Role
from holdfast.errors import NotFound
from holdfast.gateway.invalid import invalid, parameters
from holdfast.gateway.operations.call import Call
from holdfast.gateway.rest.apis import find_route
from holdfast.gateway.rest.running import run_route
from holdfast.gateway.server import new_metrics
from holdfast.gateway.services import GatewayServices
from holdfast.queue.queue import Queue


class LocalApi:
    """The API on an open queue (`client.calls.Calls`)."""

    def __init__(self, services: GatewayServices, actor: str) -> None:
        self._services = services
        self._principal = Principal(
            name=actor,
            kind=PrincipalKind.USER,
            roles=frozenset({Role.ADMIN}),
            projects=frozenset({ALL_PROJECTS}),
        )

    @classmethod
    async def open(cls, queue: Queue, actor: str) -> LocalApi:
        return cls(await GatewayServices.open(queue, new_metrics()), actor)

    def working(self) -> AbstractAsyncContextManager[None]:
        """Advances the bulk runs of calls in the background. Without it a call ends with its run."""
        return self._services.bulk.running(only_own=True)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """The answer. `path` as in a request, with its parts encoded."""
        match = find_route(method, path)
        if match is None:
            raise NotFound(f"there is no call {method} {path}")
        route, values = match
        given = {name: text_of(value) for name, value in (query or {}).items() if value is not None}
        options: dict[str, Any] = msgspec.structs.asdict(parameters(given, route.query))
        try:
            if route.body is not None:
                options["body"] = msgspec.json.decode(
                    encoded({} if body is None else body), type=route.body
                )
        except msgspec.ValidationError as error:
            raise invalid(error, route.body) from None
        call = Call(
            self._services,
            self._principal,
            request_id=self._services.request_id(),
            dry_run=dry_run,
        )
        answer = await run_route(call, route, values, options)
        # As it would be read from a response: no tuples, no enumerations.
        shown = msgspec.json.decode(msgspec.json.encode(answer.body))
        return Answer(answer.status, shown, {})
