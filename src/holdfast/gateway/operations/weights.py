"""Operations on the weights of keys of fair types."""

from __future__ import annotations

import msgspec

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.rights import Operation
from holdfast.core.turns import WeightChange
from holdfast.gateway.operations.call import Answer, Call
from holdfast.queue import views


class WeightBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many tasks a key starts in one turn, and why it is changed."""

    key: str
    weight: int
    reason: str = ""


async def list_weights(call: Call, name: str, *, after: str | None, limit: int) -> Answer:
    """The keys of a type whose weight is not 1, by key. `next` is the last key of a full page."""
    call.authorise_any(Operation.QUEUES_READ)
    rows = await call.services.parts.weights.list(name, after=after or "", limit=limit)
    more = rows[-1].key if len(rows) == limit else None
    return Answer({"items": [views.key_weight(row) for row in rows], "next": more})


async def set_weight(call: Call, name: str, body: WeightBody) -> Answer:
    """Sets how many tasks a key starts in one turn. 1 is the weight of all other keys."""
    actor = call.authorise_store(Operation.TYPES_WEIGH).actor
    answers: list[Answer] = []

    def answer(after: WeightChange) -> Answer:
        answers.append(Answer({"type": after.type, "key": after.key, "weight": after.weight}))
        return answers[-1]

    by = call.by(
        Operation.TYPES_WEIGH,
        project=ALL_PROJECTS,
        subject=f"type:{name}",
        actor=actor,
        reason=body.reason,
        answer=answer,
        detail={"key": body.key, "weight": body.weight},
    )
    await call.services.parts.weights.set(name, body.key, body.weight, by)
    return answers[-1]
