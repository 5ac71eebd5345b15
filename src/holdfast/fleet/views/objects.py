"""The JSON form of what the fleet has. One shape for each object on every face (`client.fleet_models`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.client import fleet_models as models
from holdfast.core import codec
from holdfast.core.fleet.blocks import block as block_rules
from holdfast.core.fleet.hosts.selector import fold
from holdfast.core.fleet.model import Agent, Block, Group
from holdfast.fleet.hosts.details import HostDetails, Slot
from holdfast.fleet.hosts.hosts import Imported
from holdfast.queue.views import View, at, shown


def host_row(of: HostDetails, now: float) -> View:
    """A host in a list: without facts, which may be large."""
    return shown(models.HostRow(**_host(of, now)))


def host(
    of: HostDetails,
    now: float,
    *,
    groups: Sequence[str] = (),
    blocks: Sequence[str] = (),
) -> View:
    fields = _host(of, now)
    return shown(
        models.HostView(**fields, facts=of.host.facts, groups=list(groups), blocks=list(blocks))
    )


def _host(of: HostDetails, now: float) -> dict[str, Any]:
    row = of.host
    return {
        "id": row.id,
        "name": row.name,
        "project": row.project,
        "driver": row.driver.value,
        "address": row.address,
        "labels": row.labels,
        "state": row.state.value,
        "standing": None if of.standing is None else of.standing.value,
        "agent": None if of.agent is None else _agent(of.agent, now, is_live=of.is_live),
        "slot": None if of.slot is None else _slot(of.slot),
        "created_at": at(row.created_at),
        "updated_at": at(row.updated_at),
        "version": row.version,
    }


def _agent(of: Agent, now: float, *, is_live: bool) -> models.HostAgentView:
    return models.HostAgentView(
        node_id=of.host_id,
        live=is_live,
        version=of.version,
        incarnation=of.incarnation,
        seen_at=at(of.seen_at),
        seen_seconds_ago=max(0.0, now - of.seen_at),
        capabilities=codec.loads(of.capabilities_json),
    )


def _slot(of: Slot) -> models.HostSlotView:
    return models.HostSlotView(execution_id=of.execution_id, token=of.token, since=at(of.since))


def selection(selector: str, names: Sequence[str]) -> View:
    return shown(
        models.HostSelection(
            selector=selector, count=len(names), folded=fold(names), hosts=list(names)
        )
    )


def imported(
    of: Imported,
    *,
    errors: Sequence[Mapping[str, Any]] = (),
    more_errors: int = 0,
    groups: Sequence[str] = (),
) -> View:
    """`errors`: of lines that are no hosts at all."""
    wrong = [
        {"nth": problem.nth, "name": problem.name, "message": problem.message}
        for problem in of.errors
    ]
    return shown(
        models.HostImport(
            added=of.added,
            changed=of.changed,
            unchanged=of.unchanged,
            failed=of.failed + len(errors) + more_errors,
            errors=[*map(dict, errors), *wrong],
            groups=list(groups),
        )
    )


def group(of: Group) -> View:
    return shown(
        models.GroupView(
            name=of.name,
            project=of.project,
            selector=of.selector,
            created_at=at(of.created_at),
            version=of.version,
        )
    )


def block_row(of: Block, now: float, *, host: str | None, types: Collection[str]) -> View:
    """`host`: the name of its host, if it is about one. `types`: the command types that there are."""
    return shown(models.BlockRow(**_block(of, now, host, types)))


def block(
    of: Block, now: float, *, host: str | None, types: Collection[str], affected: Sequence[str]
) -> View:
    """`affected`: the names of the hosts that it is about."""
    fields = _block(of, now, host, types)
    return shown(models.BlockView(**fields, affects=len(affected), folded=fold(affected)))


def _block(of: Block, now: float, host: str | None, types: Collection[str]) -> dict[str, Any]:
    is_over = block_rules.is_over(of, now)
    is_active = block_rules.is_in_force(of, now)
    remains = None if of.expires_at is None or is_over else of.expires_at - now
    return {
        "id": of.id,
        "project": of.project,
        "host": host,
        "host_id": of.host_id,
        "selector": of.selector,
        "command_type": of.command_type,
        "reason": of.reason,
        "owner": of.owner,
        "effect": of.effect.value,
        "on_running": of.on_running.value,
        "on_lift": of.on_lift.value,
        "window": None if of.window_json is None else codec.loads_object(of.window_json),
        "expires_at": at(of.expires_at),
        "remaining_seconds": remains,
        "active": is_active,
        "until": at(block_rules.ends_at(of, now)) if is_active else None,
        "next_windows": [at(start) for start in block_rules.next_windows(of, now)],
        "warnings": [] if is_over else block_rules.warnings(of, types, now),
        "lifted_at": at(of.lifted_at),
        "lifted_by": of.lifted_by,
        "created_at": at(of.created_at),
        "version": of.version,
    }
