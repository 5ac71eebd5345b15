"""Registers the task types of remote workers, so that producers can enqueue them, and their schedules."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.check import check_id
from holdfast.core.codec import dumps
from holdfast.core.schedule import REMOTE, Schedule, check_timetable
from holdfast.core.submit import encode_payload
from holdfast.core.worker.wire import TypeDefinition
from holdfast.engine.handlers import TypeConfig, check_type_config
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.store.rows import TypeRow
from holdfast.store.scripts.audit import Act
from holdfast.store.store import Store

TYPES_MAX: Final = 1_000
"""Types that one worker defines."""
_definitions: Final = msgspec.json.Decoder(list[TypeDefinition])

OPTIONS: Final = frozenset(field.name for field in msgspec.structs.fields(TypeConfig))


async def register_types(
    store: Store, actor: str, definitions_json: str, *, project: str, act: Act
) -> None:
    """Registers the types of a worker. Empty text: none. InvalidInput if they cannot be read. `project`: the
    one that the worker is limited to; empty for all. `act`: the request, for the audit."""
    rows = type_rows(definitions_json)
    if rows:
        await store.upkeep.register_types(rows, actor=actor, project=project, act=act)


def type_rows(definitions_json: str) -> list[TypeRow]:
    """The types of a worker as they are stored. InvalidInput if they cannot be."""
    return [_row(definition) for definition in read_definitions(definitions_json)]


def read_definitions(definitions_json: str) -> list[TypeDefinition]:
    """The definitions of a worker. Empty text: none. InvalidInput if they cannot be read."""
    if not definitions_json:
        return []
    try:
        definitions = _definitions.decode(definitions_json)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"definitionsJson: {error}") from None
    if len(definitions) > TYPES_MAX:
        raise BatchTooLarge(f"a worker defines at most {TYPES_MAX} types, not {len(definitions)}")
    return definitions


async def announce_schedules(store: Store, worker: str, project: str, definitions_json: str) -> int:
    """Adds the schedules of a worker's code, or says that they still have a worker. They fire in its project.
    A schedule of an operator, of another project or of a node with the database stays as it is. Returns how
    many schedules the worker has."""
    scheduled = [each for each in read_definitions(definitions_json) if each.cron]
    for definition in scheduled:
        check_timetable(definition.cron, definition.timezone)
        config = _config(definition)
        schedule = Schedule(
            definition.name,
            definition.name,
            definition.queue,
            definition.cron,
            definition.timezone,
            encode_payload({}),
            int(config.priority),
            0.0,
            owner=REMOTE,
            project=project,
        )
        await store.schedules.put(schedule, actor=worker)
    return len(scheduled)


def _config(definition: TypeDefinition) -> TypeConfig:
    if unknown := sorted(set(definition.options) - OPTIONS):
        raise InvalidInput(
            f"definitionsJson: type '{definition.name}' has the unknown option '{unknown[0]}': this gateway "
            "has none; if the worker is of a newer version, upgrade the gateway first"
        )
    try:
        config = msgspec.convert(definition.options, TypeConfig)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"definitionsJson: {error}") from None
    check_type_config(config)
    return config


def _row(definition: TypeDefinition) -> TypeRow:
    check_id("definitions.name", definition.name)
    check_id("definitions.queue", definition.queue)
    return TypeRow(definition.name, definition.queue, dumps(_config(definition)))
