"""Registers the task types of remote workers, so that producers can enqueue them."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import check_id
from holdfast.core.codec import dumps
from holdfast.core.worker_wire import TypeDefinition
from holdfast.engine.handlers import TypeConfig, check_type_config
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.store.rows import TypeRow
from holdfast.store.store import Store

TYPES_MAX: Final = 1_000
"""Types that one worker defines."""
_definitions: Final = msgspec.json.Decoder(list[TypeDefinition])


async def register_types(store: Store, node: str, definitions_json: str, *, project: str) -> None:
    """Registers the types of a worker. Empty text: none. InvalidInput if they cannot be read. `project`: the
    one that the worker is limited to; empty for all."""
    if not definitions_json:
        return
    try:
        definitions = _definitions.decode(definitions_json)
        rows = [_row(definition) for definition in definitions]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"definitionsJson: {error}") from None
    if len(rows) > TYPES_MAX:
        raise BatchTooLarge(f"a worker defines at most {TYPES_MAX} types, not {len(rows)}")
    await store.upkeep.register_types(rows, node=node, project=project)


def _row(definition: TypeDefinition) -> TypeRow:
    check_id("definitions.name", definition.name)
    check_id("definitions.queue", definition.queue)
    config = msgspec.convert(definition.options, TypeConfig)
    check_type_config(config)
    return TypeRow(definition.name, definition.queue, dumps(config))
