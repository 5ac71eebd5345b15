"""`/api/v2/sync` as an application.

Promises: every refusal has `success: false` and an `error` name beside the problem details. A field that a
call does not have is ignored and named in `warnings`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from holdfast.core.exchange.item_wire import unknown_fields
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.errors import HoldfastError, NotFound
from holdfast.gateway.operations.call import Answer
from holdfast.gateway.operations.sync import exchange
from holdfast.gateway.rest.handler import Api
from holdfast.gateway.rest.problem import problem, problem_response
from holdfast.gateway.rest.route import Route

WARNINGS_MAX: Final = 20
E: Final = SyncError
NAMES: Final[dict[str, str]] = {
    "version-conflict": E.VERSION_CONFLICT,
    "precondition-failed": E.VERSION_CONFLICT,
    "illegal-transition": E.INVALID_TRANSITION,
    "decision-needed": E.HELD,
    "not-runner": E.NOT_RUNNER,
    "already-locked": E.ALREADY_LOCKED,
    "not-claimable": E.NOT_CLAIMABLE,
    "not-locked": E.NOT_LOCKED,
    "lease-lost": E.LOCK_LOST,
    "not-found": E.TASK_NOT_FOUND,
    "unknown-node": E.NODE_UNKNOWN,
    "node-fenced": E.NODE_FENCED,
    "idempotency-conflict": E.MUTATION_REUSED,
    "ambiguous-id": E.AMBIGUOUS_ID,
    "batch-too-large": E.BATCH_TOO_LARGE,
    "feed-reset": E.RESET_REQUIRED,
}
"""The error names of codes. Another code is its own name, e.g. `INVALID_INPUT`."""


class SyncApi(Api):
    """The API with the error names and warnings of the protocol."""

    def refuse(self, error: HoldfastError, request_id: str) -> Response:
        response = problem_response(error, request_id)
        body = {**problem(error, request_id), "success": False, "error": _name(error)}
        shown = Response(
            msgspec.json.encode(body), response.status_code, media_type=response.media_type
        )
        for key, value in response.headers.items():
            if key != "content-length":
                shown.headers[key] = value
        return shown

    def complete(self, answer: Answer, route: Route, data: bytes) -> Answer:
        unknown = _unknown(route.body, data)
        if not unknown:
            return answer
        body = answer.body
        warnings = [*body.get("warnings", ()), *(f"there is no field {name}" for name in unknown)]
        return msgspec.structs.replace(answer, body={**body, "warnings": warnings})


def _name(error: HoldfastError) -> str:
    """TASK_NOT_FOUND says that the task is gone: what is missing may also be the project."""
    of_code = error.code.upper().replace("-", "_")
    if isinstance(error, NotFound) and error.noun not in (None, "task"):
        return of_code
    return str(NAMES.get(error.code, of_code))


def _unknown(kind: Any, data: bytes) -> list[str]:
    """The names of fields that a body has and its type has not, at the top and in the items of a push."""
    if kind is None or not data.strip():
        return []
    sent = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    names = sorted(set(sent) - set(kind.__struct_encode_fields__))
    if kind is exchange.PushBody:
        for item in msgspec.json.decode(sent["tasks"], type=list[msgspec.Raw]):
            names += sorted({f"tasks.{name}" for name in unknown_fields(item)} - set(names))
    return names[:WARNINGS_MAX]
