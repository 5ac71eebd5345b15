"""Again and again a statement of a worker reaches the server, which carries it out and commits; then the
connection is reset before the answer."""

from __future__ import annotations

import asyncio

from chaos.cases._case import Case
from chaos.stage import Stage

TIMES = 20
APART_SECONDS = 0.25


async def strike(stage: Stage) -> None:
    stage.strike()
    for _ in range(TIMES):
        stage.proxy.lose_answer()
        await asyncio.sleep(APART_SECONDS)
    stage.notes["answers_lost"] = stage.proxy.swallowed
    stage.heal()


CASE = Case(
    "answer-lost",
    "commits whose answers are lost with their connections",
    frozenset({"postgres"}),
    strike,
    needs_proxy=True,
)
