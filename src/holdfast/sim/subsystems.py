"""Builds the subsystems of a plan: traders, lock servers with their clients, gateways, the fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.queue.settings import Settings
from holdfast.sim.draw import Draw
from holdfast.sim.fleet.cast import FleetCast
from holdfast.sim.node import Node
from holdfast.sim.orders.exchange import Server as ExchangeServer
from holdfast.sim.orders.trader import Trader
from holdfast.sim.quorum import QuorumHolder, Server as LockServer
from holdfast.sim.record import Record
from holdfast.sim.server import NAME
from holdfast.sim.subsystem import Subsystem
from holdfast.sim.swarm import Plan

Add = Callable[[str], Node]
QUORUM_HOLDERS: Final = 3
SKEW_SECONDS: Final = 0.4
"""Skew of an exchange's clock at most; the execution loop tolerates more."""


def subsystems_of(
    plan: Plan, add: Add, record: Record, draw: Draw, settings: Settings
) -> list[Subsystem]:
    """Builds the subsystems and adds their nodes."""
    subsystems: list[Subsystem] = []
    for n, kind in enumerate(plan.traders):
        trader = _trader(n, kind, plan, add, draw.stream(f"trader {n}"))
        record.order_histories.append(trader.history)
        subsystems.append(trader)
    if plan.lock_servers:
        subsystems += _quorum_holders(plan, add, record, draw.stream("savers"))
    if plan.gateways:
        # Needs the packages of a gateway, which a plan without gateways does not.
        from holdfast.sim.hub.cast import HubCast

        subsystems.append(HubCast(plan, add, record.hub, settings, draw.stream("hub")))
    if plan.agents:
        subsystems.append(FleetCast(plan, add, record.fleet, draw.stream("fleet")))
    return subsystems


def _trader(n: int, kind: str, plan: Plan, add: Add, draw: Draw) -> Trader:
    node = add(f"t{n}")
    skew = draw.stream("skew").between(-SKEW_SECONDS, SKEW_SECONDS)
    exchange = ExchangeServer(f"x{n}", node, plan.seed, skew)
    node.peers = (exchange.name, NAME) if kind == "database" else (exchange.name,)
    node.hears = False
    trader = Trader(node, exchange, draw, kind)
    node.main = trader.main
    return trader


def _quorum_holders(plan: Plan, add: Add, record: Record, draw: Draw) -> list[Subsystem]:
    servers = []
    for n in range(plan.lock_servers):
        node = add(f"k{n}")
        node.hears = False
        node.peers = tuple(f"e{k}" for k in range(QUORUM_HOLDERS))
        servers.append(LockServer(node, record))
    holders: list[Subsystem] = []
    for n in range(QUORUM_HOLDERS):
        holder = _quorum_holder(f"e{n}", add, servers, record, draw.stream(str(n)))
        holder.node.peers = tuple(server.node.name for server in servers)
        holder.node.hears = False
        holders.append(holder)
    return holders


def _quorum_holder(
    name: str, add: Add, servers: list[LockServer], record: Record, draw: Draw
) -> QuorumHolder:
    node = add(name)
    holder = QuorumHolder(node, servers, record, draw)
    node.main = holder.main
    return holder
