"""Issues an access token, and gets its secret although an answer was lost.

Promises: a request that was repeated is answered without the secret, because the server does not keep it; the
token then gets another secret, and the lost one is refused. Never: makes a second token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.client.calls import Calls, path_of
from holdfast.errors import StoreUnavailable

ROTATIONS_MAX: Final = 5
"""Answers in a row that may be lost."""


async def issued(
    calls: Calls, path: str, body: object = None, *, query: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The new or rotated token with its secret in `token`."""
    answer: dict[str, Any] = (await calls.call("POST", path, body, query=query)).body
    for _ in range(ROTATIONS_MAX):
        if answer.get("token") is not None:
            return answer
        answer = (await calls.call("POST", path_of("tokens", answer["id"], "rotate"))).body
    raise StoreUnavailable(
        f"the token {answer['id']} exists, but each answer with its secret was lost: rotate it when the "
        "connection is better"
    )
