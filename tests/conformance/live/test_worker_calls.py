"""Calls of remote workers for their handlers."""

from __future__ import annotations

import pytest

from holdfast.core.speaking import Voice
from holdfast.core.worker.wire import CallFrame
from holdfast.errors import InvalidInput
from holdfast.gateway.worker.calls import WorkerCalls
from holdfast.store.store import Store


@pytest.mark.parametrize(
    "args_json",
    ["[]", "{", '{"a":' * 5_000 + "1" + "}" * 5_000],
    ids=["list", "cut", "deep"],
)
async def test_arguments_that_are_no_readable_object_are_refused(
    store: Store, args_json: str
) -> None:
    call = CallFrame(n=1, verb="parents", task_id="a", fence=1, args_json=args_json)
    with pytest.raises(InvalidInput, match="argsJson"):
        await WorkerCalls(store).answer(Voice("node-a"), "default", call)
