"""Which parts a plan has beside workers, clients and holders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.sim.draw import Draw
from holdfast.sim.node import Node
from holdfast.sim.orders.exchange import Server as ExchangeServer
from holdfast.sim.orders.trader import Trader
from holdfast.sim.quorum import QuorumHolder, Server as LockServer
from holdfast.sim.record import Record
from holdfast.sim.server import NAME
from holdfast.sim.subsystem import Subsystem
from holdfast.sim.swarm import Plan

Add = Callable[[str], Node]
SAVERS: Final = 3
SKEW_SECONDS: Final = 0.4
"""Of an exchange's clock; less than the execution loop allows for."""


def subsystems_of(plan: Plan, add: Add, record: Record, draw: Draw) -> list[Subsystem]:
    """They add their nodes."""
    made: list[Subsystem] = []
    for n, kind in enumerate(plan.traders):
        trader = _trader(n, kind, plan, add, draw.stream(f"trader {n}"))
        record.order_histories.append(trader.history)
        made.append(trader)
    if plan.lock_servers:
        made += _savers(plan, add, record, draw.stream("savers"))
    return made


def _trader(n: int, kind: str, plan: Plan, add: Add, draw: Draw) -> Trader:
    node = add(f"t{n}")
    skew = draw.stream("skew").between(-SKEW_SECONDS, SKEW_SECONDS)
    exchange = ExchangeServer(f"x{n}", node, plan.seed, skew)
    node.peers = (exchange.name, NAME) if kind == "database" else (exchange.name,)
    node.hears = False
    trader = Trader(node, exchange, draw, kind)
    node.main = trader.main
    return trader


def _savers(plan: Plan, add: Add, record: Record, draw: Draw) -> list[Subsystem]:
    servers = []
    for n in range(plan.lock_servers):
        node = add(f"k{n}")
        node.hears = False
        node.peers = tuple(f"e{each}" for each in range(SAVERS))
        servers.append(LockServer(node, record))
    savers: list[Subsystem] = []
    for n in range(SAVERS):
        saver = _saver(f"e{n}", add, servers, record, draw.stream(str(n)))
        saver.node.peers = tuple(server.node.name for server in servers)
        saver.node.hears = False
        savers.append(saver)
    return savers


def _saver(
    name: str, add: Add, servers: list[LockServer], record: Record, draw: Draw
) -> QuorumHolder:
    node = add(name)
    saver = QuorumHolder(node, servers, record, draw)
    node.main = saver.main
    return saver
