"""Ids on the command line: any beginning of an id that is long enough stands for the object."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from holdfast.cli.api import full_id
from holdfast.cli.commands.fleet.job_ref import job_ref
from holdfast.cli.ids import PREFIX_MIN
from holdfast.client.calls import Answer

DIGITS = "0190f3a2c4d57e8b9a6c1d2e3f405162"
NODE = "rack-7.of-the-second-hall.in-the-west-wing.example"


class Listed:
    """A gateway with one object of each kind. Counts the lists that are read."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.reads = 0

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        dry_run: bool = False,
    ) -> Answer:
        self.reads += 1
        return Answer(200, {"items": [{"id": self.id}]}, {})


@given(st.sampled_from(["hst", "blk", "dec", "tok", "op", "con"]), st.integers(PREFIX_MIN, 35))
def test_any_beginning_of_an_id_is_looked_up(kind: str, chars: int) -> None:
    id = f"{kind}_{DIGITS}"
    assert asyncio.run(full_id(Listed(id), "hosts", id[:chars])) == id


@given(st.integers(PREFIX_MIN, 36))
def test_any_beginning_of_the_id_of_a_job_is_looked_up(chars: int) -> None:
    id = f"job_{DIGITS}"
    assert asyncio.run(job_ref(Listed(id), id[:chars])) == id


@given(st.integers(PREFIX_MIN, len(NODE)))
def test_nodes_have_long_names_and_beginnings_of_them_are_looked_up(chars: int) -> None:
    assert asyncio.run(full_id(Listed(NODE), "nodes", NODE[:chars])) == NODE


@pytest.mark.parametrize("id", [f"hst_{DIGITS}", "0190f3a2-c4d5-7e8b-9a6c-1d2e3f405162"])
def test_a_whole_id_costs_no_read(id: str) -> None:
    listed = Listed("other")
    assert asyncio.run(full_id(listed, "hosts", id)) == id
    assert asyncio.run(job_ref(listed, f"job_{DIGITS}")) == f"job_{DIGITS}"
    assert listed.reads == 0
