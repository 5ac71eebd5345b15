"""`holdfast simulate`: a cluster under faults, in virtual time, judged by the laws.

Promises: the same seed gives the same run and the same `trace_hash`, everywhere; a law that is broken
is told with the seed, the command that shows it again and a timeline, and the exit code is 1.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.options import COMMON, Common, Output
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.core import codec
from holdfast.sim.campaign import Options, Report, Verdict, campaign
from holdfast.sim.own import Own, own_handlers


def simulate(
    *,
    seed: Annotated[int, Parameter(help="The first seed.")] = 0,
    seeds: Annotated[int, Parameter(help="How many.")] = 1,
    nodes: Annotated[int | None, Parameter(help="Worker nodes; else drawn, 1 to 5.")] = None,
    faults: Annotated[
        str | None, Parameter(help="Only these, e.g. crash,loss; 'none' for none.")
    ] = None,
    hours: Annotated[float | None, Parameter(help="With faults; else drawn.")] = None,
    app: Annotated[str | None, Parameter(help="MODULE:QUEUE with your own handlers.")] = None,
    payload: Annotated[
        tuple[str, ...], Parameter(help="TYPE=JSON, what your handlers get; repeat it.")
    ] = (),
    processes: Annotated[int, Parameter(name=("--processes", "-p"), help="How many.")] = 1,
    without: Annotated[
        str | None, Parameter(help="Turn a safeguard off, to see it noticed.")
    ] = None,
    common: Common = COMMON,
) -> int:
    """Run a cluster under faults that a seed draws, in virtual time, and check every law."""
    options = Options(hours=hours, nodes=nodes, faults=_faults(faults), ablation=_known(without))
    own = _own(app, payload)
    if own is not None and processes > 1:
        raise Usage("--app runs in this process: leave --processes out")
    show = sys.stderr.isatty() and seeds > 1
    done = 0

    def tell(verdict: Verdict) -> None:
        nonlocal done
        done += 1
        if show:
            print(f"\r{done}/{seeds} seeds", end="", file=sys.stderr, flush=True)

    report = campaign(
        range(seed, seed + seeds), options, processes=processes, own=own, on_verdict=tell
    )
    if show:
        print(file=sys.stderr)
    _print(common, report, seed, _replay(nodes, faults, hours, app, payload, without))
    return 0 if report.is_good else 1


def _faults(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return () if text == "none" else values.names(text)


def _known(without: str | None) -> str | None:
    from holdfast.sim.ablations import ABLATIONS

    if without is not None and without not in ABLATIONS:
        raise Usage(f"--without is '{without}': choose from {', '.join(ABLATIONS)}")
    return without


def _own(app: str | None, payload: tuple[str, ...]) -> Own | None:
    if app is None:
        return None
    from holdfast.cli.worker.load import load_queue

    given: dict[str, list[object]] = {}
    for each in payload:
        name, sign, text = each.partition("=")
        if not sign:
            raise Usage(f"--payload is '{each}': write TYPE=JSON")
        try:
            given.setdefault(name, []).append(codec.loads(text))
        except msgspec.DecodeError as error:
            raise Usage(f"--payload of '{name}' is no JSON: {error}") from None
    return own_handlers(load_queue(app), given)


def _replay(
    nodes: int | None,
    faults: str | None,
    hours: float | None,
    app: str | None,
    payload: tuple[str, ...],
    without: str | None,
) -> str:
    """The options that are the same for every seed."""
    parts = [
        f"--{name} {value}"
        for name, value in (
            ("nodes", nodes),
            ("faults", faults),
            ("hours", hours),
            ("app", app),
            ("without", without),
        )
        if value is not None
    ]
    return " ".join([*parts, *(f"--payload '{each}'" for each in payload)])


def _print(common: Common, report: Report, seed: int, same: str) -> None:
    item: dict[str, Any] = {
        "verdict": "every law held" if report.is_good else "broken",
        "seeds": report.seeds,
        "hours": round(report.hours, 3),
        "trace_hash": report.trace_hash,
        "met": report.met,
        "never_met": list(report.never),
        "broken": [
            {
                "seed": verdict.seed,
                "laws": verdict.broken,
                "replay": f"holdfast simulate --seed {verdict.seed} {same}".strip(),
            }
            for verdict in report.bad
        ],
    }
    Printer(common).one(item, _fields(item), name=item["trace_hash"])
    if common.output is Output.TABLE:
        for verdict in report.bad[:1]:
            print(f"\nseed {verdict.seed}, the end of it:\n{verdict.timeline}")


def _fields(item: dict[str, Any]) -> list[tuple[str, object]]:
    met = ", ".join(f"{name} {n}" for name, n in sorted(item["met"].items())) or "none"
    lines: list[tuple[str, object]] = [
        ("verdict", item["verdict"]),
        ("seeds", item["seeds"]),
        ("simulated hours", item["hours"]),
        ("faults met", met),
        ("trace hash", item["trace_hash"]),
    ]
    if item["never_met"]:
        lines.append(("never met", ", ".join(item["never_met"])))
    for each in item["broken"]:
        for law, complaints in each["laws"].items():
            more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
            lines.append((f"seed {each['seed']}", f"{law}: {complaints[0]}{more}"))
        lines.append(("again", each["replay"]))
    return lines
