"""`holdfast orders demo`: the execution loop on a simulated exchange."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.options import Common, Flag, Output
from holdfast.cli.output.printer import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def demo(
    *,
    shadow: Annotated[Flag, Parameter(help="Required: trade on the simulated exchange.")] = False,
    durable_state: Annotated[Flag, Parameter(help="Keep orders and exchange on disk.")] = False,
    state_dir: Annotated[Path, Parameter(help="Where to keep them.")] = Path("artifacts/state"),
    recover: Annotated[Flag, Parameter(help="Continue after a crash or an earlier run.")] = False,
    symbols: Annotated[str, Parameter(help="What to trade, separated by commas.")] = "BTCUSDT",
    iterations: Annotated[int, Parameter(help="Up to which iteration.")] = 50,
    seed: Annotated[int, Parameter(help="Determines every fault.")] = 0,
    freeze_at: Annotated[
        list[int] | None, Parameter(help="Freeze at this iteration; repeatable.", negative="")
    ] = None,
    interval: Annotated[str, Parameter(help="Real time between iterations, e.g. 50ms.")] = "0",
    log_level: Annotated[
        LogLevel, Parameter(help="Level of the log on stderr.")
    ] = LogLevel.WARNING,
    output: Annotated[
        Output, Parameter(name=("--output", "-o"), help="How to print: name is ids only.")
    ] = Output.TABLE,
) -> int:
    """Trade on a simulated exchange, then compare both books.

    The exchange rejects, delays, loses and repeats messages. With --durable-state the run can be killed
    at any moment; --recover continues it, loses no order and places none twice. The same seed gives the
    same report, byte for byte."""
    from holdfast.orders import demo

    logging.basicConfig(stream=sys.stderr, level=log_level.value.upper(), format="%(message)s")
    options = demo.Options(
        shadow=shadow,
        durable_state=durable_state,
        state_dir=state_dir,
        recover=recover,
        symbols=values.names(symbols),
        iterations=iterations,
        seed=seed,
        freeze_at=tuple(freeze_at or ()),
        interval_seconds=values.seconds(interval, "--interval"),
    )
    report = demo.run(options)
    _print(report, output)
    return 0 if report["ok"] else 1


def _print(report: dict[str, Any], output: Output) -> None:
    from holdfast.orders.execution.report import to_bytes

    match output:
        case Output.JSON | Output.JSONL:
            print(to_bytes(report).decode(), end="")
        case Output.NAME:
            for order in report["orders"]:
                print(order["client_order_id"])
        case Output.TABLE | Output.WIDE:
            Printer(Common(output=output)).one(report, list(_fields(report)))


def _fields(report: dict[str, Any]) -> Iterator[tuple[str, object]]:
    stats, exchange = report["stats"], report["exchange"]
    yield "orders placed", stats["orders_placed"]
    yield "orders filled", stats["orders_filled"]
    yield "orders canceled", stats["orders_canceled"]
    yield "orders rejected", stats["orders_rejected"]
    yield "orders open", stats["orders_open"]
    yield "freeze events", stats["freeze_events"]
    for symbol, qty in report["positions"].items():
        yield f"position {symbol}", qty
    if (recovery := report["recovery"]) is not None:
        found = len(recovery["differences"])
        yield "recovered", f"{recovery['open_orders_count']} open orders, {found} differences"
    yield "at the exchange", f"{exchange['orders']} orders, {len(exchange['placed_twice'])} twice"
    yield "both books", "agree" if report["ok"] else f"differ: {report['differences']}"
