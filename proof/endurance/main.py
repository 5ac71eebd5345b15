"""Command line: ``python -m proof endurance [reader memory size prune] [--minutes N] [--quick]``."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from proof.endurance import memory, prune, reader, report, size
from proof.lab.databases import database
from proof.lab.folders import data_dir
from proof.lab.report import say
from proof.lab.servers import STOCK, Postgres


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof endurance", description=__doc__)
    parser.add_argument("runs", nargs="*", help=f"of {', '.join(RUNS)}; all of them by default")
    parser.add_argument("--store", choices=("postgres", "sqlite"), help="one of them only")
    parser.add_argument("--quick", action="store_true", help="minutes: to see that it works")
    parser.add_argument("--minutes", type=float, help="length of the memory run (60; quick: 2)")
    parser.add_argument("--pace", type=float, default=0.6, help="seconds a round of mixed load")
    parser.add_argument("--seconds", type=float, help="length of other windows (120, quick: 20)")
    parser.add_argument("--rounds", type=int, help="pairs of windows (3, quick: 1)")
    parser.add_argument("--results", type=Path, default=report.RESULTS, help="where results go")
    return parser.parse_args(argv)


def _postgres(root: Path) -> Postgres:
    return Postgres(base=root, preset=STOCK)


class Session:
    """Shared by all runs."""

    def __init__(self, args: argparse.Namespace, root: Path) -> None:
        self.args = args
        self.root = root
        self.stores: tuple[str, ...] = (args.store,) if args.store else ("postgres", "sqlite")
        self.postgres = _postgres(root) if "postgres" in self.stores else None
        args.results.mkdir(parents=True, exist_ok=True)
        self.log = args.results / "run.log"
        self.log.write_text("")

    def memory(self) -> dict[str, Any]:
        minutes = self.args.minutes or (2.0 if self.args.quick else 60.0)
        with ExitStack() as stack:
            if self.postgres:
                stack.enter_context(database(self.postgres, "memory"))
            return memory.run(
                root=self.root,
                log=self.log,
                postgres=self.postgres,
                stores=self.stores,
                minutes=minutes,
                pace=self.args.pace,
            )

    def reader(self) -> dict[str, Any] | None:
        if self.postgres is None:
            return None
        rounds = self.args.rounds or (1 if self.args.quick else 3)
        other = _postgres(self.root)
        try:
            return reader.run(
                servers=(self.postgres, other), log=self.log, seconds=self._seconds(), rounds=rounds
            )
        finally:
            other.stop()

    def size(self) -> dict[str, Any]:
        tasks = 2_000 if self.args.quick else 20_000
        return size.run(root=self.root, postgres=self.postgres, stores=self.stores, tasks=tasks)

    def prune(self) -> dict[str, Any]:
        return prune.run(
            root=self.root,
            log=self.log,
            postgres=self.postgres,
            stores=self.stores,
            seconds=self.args.seconds or (30.0 if self.args.quick else 210.0),
        )

    def _seconds(self) -> float:
        return float(self.args.seconds or (20.0 if self.args.quick else 120.0))


RUNS: dict[str, tuple[Callable[[Session], dict[str, Any] | None], report.Text]] = {
    "reader": (Session.reader, report.reader_text),
    "size": (Session.size, report.size_text),
    "prune": (Session.prune, report.prune_text),
    "memory": (Session.memory, report.memory_text),
}


def main(argv: list[str]) -> int:
    args = _arguments(argv)
    if unknown := sorted(set(args.runs) - set(RUNS)):
        say(f"error: no run is called {unknown[0]}: the runs are {', '.join(RUNS)}")
        return 2
    root = data_dir()
    session = Session(args, root)
    try:
        for name in args.runs or RUNS:
            run, text = RUNS[name]
            result = run(session)
            if result is not None:
                report.write(name, result, text(result), args.results)
    except KeyboardInterrupt:
        say("interrupted: what was not finished is not written")
        return 130
    finally:
        if session.postgres:
            session.postgres.stop()
        shutil.rmtree(root, ignore_errors=True)
    return 0
