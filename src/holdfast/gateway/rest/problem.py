"""Errors as problem details (RFC 9457).

Promises: every error of the product keeps its code, status and whether a repeat may help. An unexpected
error says nothing of its cause; the log has it under the id of the request. No text has a token.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
from starlette.responses import Response

from holdfast.core.decision import Decision
from holdfast.core.errors import BadSelector, RateLimited, Unauthenticated, UnknownHost
from holdfast.core.fleet.model import ApprovalRequest, Job
from holdfast.core.search import QueryError
from holdfast.errors import AlreadyDecided, FeedReset, HoldfastError, InProgress, VersionConflict
from holdfast.gateway.shown import shown_detail

MEDIA: Final = "application/problem+json"
TYPE: Final = "urn:holdfast:error:"
RETRY_SECONDS: Final = 1


def problem(error: HoldfastError, request_id: str) -> dict[str, Any]:
    """The problem object of an error."""
    body: dict[str, Any] = {
        "type": f"{TYPE}{error.code}",
        "title": _title(type(error)),
        "status": error.http_status,
        "code": error.code,
        "detail": shown_detail(error),
        "retryable": error.retryable,
        "instance": request_id,
    }
    if fields := getattr(error, "fields", None):
        body["errors"] = fields
    if isinstance(error, QueryError | BadSelector):
        body["at"] = getattr(error, "at", None)
        body["expected"] = getattr(error, "expected", None)
    if isinstance(error, UnknownHost):
        body["names"] = list(error.names)
    if isinstance(error, VersionConflict) and error.current is not None:
        body["current"] = error.current
    if isinstance(error, AlreadyDecided):
        current = decided_state(error.decision)
        body |= {} if current is None else {"current": current}
    if isinstance(error, FeedReset):
        body["reset"] = {"reason": error.reason, "oldest": error.oldest, "head": error.head}
    return body


def problem_response(error: HoldfastError, request_id: str) -> Response:
    headers = {"Holdfast-Request": request_id}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    elif error.http_status in (429, 503) or isinstance(error, InProgress):
        headers["Retry-After"] = str(RETRY_SECONDS)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="holdfast"'
    return Response(
        msgspec.json.encode(problem(error, request_id)),
        error.http_status,
        headers,
        media_type=MEDIA,
    )


def decided_state(decided: object) -> dict[str, Any] | None:
    """What a refused answer or vote says about what was decided."""
    if isinstance(decided, Decision):
        return decision_state(decided)
    if isinstance(decided, ApprovalRequest):
        return {"state": decided.state, "digest": decided.digest, "version": decided.version}
    if isinstance(decided, Job):
        state = decided.approval_state.value
        return {"status": decided.status.value, "state": state, "version": decided.version}
    return None


def decision_state(decision: Decision) -> dict[str, Any]:
    """What a refused answer says about the decision."""
    return {
        "state": decision.state.value,
        "choice": decision.choice,
        "by": decision.by or None,
        "version": decision.version,
    }


def _title(kind: type[HoldfastError]) -> str:
    text = " ".join((kind.__doc__ or kind.code).split())
    return text.partition(". ")[0].partition(": ")[0].rstrip(".")
