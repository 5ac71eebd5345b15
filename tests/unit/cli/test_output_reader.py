"""A reader that looks late misses no output of earlier runs."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from holdfast.cli.output_reader import OutputReader
from holdfast.client.calls import Calls

TAKES_FENCE: dict[str, Any] = {"stream": "stdout", "fence": None}


class Reply(msgspec.Struct):
    body: dict[str, Any]


class Outputs:
    """Answers like the API: a page of the latest run with output unless `fence` names one."""

    def __init__(self) -> None:
        self.runs: dict[int, bytes] = {1: b"begins, "}

    async def call(self, _method: str, _path: str, *, query: dict[str, Any]) -> Reply:
        start, limit = query["start"], query["limit_bytes"] or 4
        run = query.get("fence")
        run = max(self.runs) if run is None else run
        data = self.runs.get(run, b"")[start : start + limit]
        return Reply({"fence": run, "text": data.decode(), "next": start + len(data)})


async def read(reader: OutputReader) -> str:
    return "".join([page["text"] async for page in reader.pages()])


@pytest.mark.parametrize(
    ("query", "second"),
    [(TAKES_FENCE, "ends. between. last"), ({"stream": "stdout"}, "last")],
    ids=["by run", "latest only"],
)
async def test_the_rest_of_earlier_runs_comes_first(query: dict[str, Any], second: str) -> None:
    outputs = Outputs()
    reader = OutputReader(cast(Calls, outputs), "/output", query, 0)
    assert await read(reader) == "begins, "
    outputs.runs = {1: b"begins, ends. ", 3: b"between. ", 4: b"last"}
    assert await read(reader) == second
    assert await read(reader) == ""


async def test_a_named_run_is_read_alone() -> None:
    outputs = Outputs()
    reader = OutputReader(cast(Calls, outputs), "/output", {"fence": 1}, 3)
    outputs.runs[2] = b"other"
    assert await read(reader) == "ins, "
