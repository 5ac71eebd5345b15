"""Command line: ``python -m chaos [--cases a,b] [--subjects a,b] [--quick]``."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from benchmarks.servers import data_dir, sweep
from benchmarks.venvs import VenvError, python_of
from chaos import report
from chaos.cases import CASES, Case
from chaos.plan import QUICK, Plan
from chaos.registry import SUBJECTS, SubjectSpec
from chaos.runner import Outcome, run, say

OUTPUT = Path(__file__).resolve().parent / "results"
Named = TypeVar("Named", Case, SubjectSpec)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter phases: to see that it works")
    parser.add_argument("--cases", type=_names, default=[], help="cases, comma separated")
    parser.add_argument("--subjects", type=_names, default=[], help="subjects, comma separated")
    parser.add_argument("--data-dir", type=Path, default=None, help="folder on a real disk")
    parser.add_argument("--json", type=Path, default=OUTPUT / "latest.json", help="result file")
    parser.add_argument("--merge", action="store_true", help="keep other cells of the result file")
    parser.add_argument("--list", action="store_true", help="list cases and subjects")
    return parser.parse_args()


def _chosen(known: Sequence[Named], names: list[str]) -> list[Named]:
    """By name or by the start of it."""
    for name in names:
        if not any(each.name.startswith(name) for each in known):
            message = f"'{name}' is not one of {', '.join(each.name for each in known)}"
            raise ValueError(message)
    return [e for e in known if not names or any(e.name.startswith(name) for name in names)]


def _pythons(subjects: Sequence[SubjectSpec]) -> dict[str, Path]:
    found = {}
    for spec in subjects:
        try:
            found[spec.name] = python_of(spec.venv) if spec.venv else Path(sys.executable)
        except (VenvError, OSError) as error:
            say(f"skip {spec.name}: cannot be installed: {error}")
    return found


def _run_all(
    cases: Sequence[Case], subjects: Sequence[SubjectSpec], plan: Plan, folder: Path
) -> list[Outcome]:
    pythons = _pythons(subjects)
    work = [
        (case, spec)
        for case in cases
        for spec in subjects
        if spec.name in pythons and spec.store in case.stores
        if not case.adapters or spec.adapter in case.adapters
    ]
    logs = OUTPUT / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    try:
        for number, (case, spec) in enumerate(work, 1):
            began = time.monotonic()
            log = logs / f"{case.name}-{spec.name}.log"
            log.unlink(missing_ok=True)
            place = folder / f"run-{number}"
            place.mkdir(mode=0o755)
            done = asyncio.run(run(case, spec, pythons[spec.name], plan, place, log))
            outcomes.append(done)
            cells = ", ".join(
                f"{h} {c}" for h, c in zip(report.HEADER, report.row(done), strict=True)
            )
            say(f"{number}/{len(work)} {case.name} {cells} ({time.monotonic() - began:.0f} s)")
            say(f"    {done.notes}")
    except KeyboardInterrupt:
        say("interrupted: reporting what was measured")
    return outcomes


def main() -> int:
    """Run, print, write."""
    args = _arguments()
    try:
        cases, subjects = _chosen(CASES, args.cases), _chosen(SUBJECTS, args.subjects)
    except ValueError as error:
        say(f"error: {error}")
        return 2
    if args.list:
        lines = [f"case {c.name}: {c.title} ({', '.join(sorted(c.stores))})" for c in cases]
        lines += [f"subject {s.name} ({s.store})" for s in subjects]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    plan = QUICK if args.quick else Plan()
    sweep(Path("/dev/shm"))
    folder = data_dir(args.data_dir)
    say(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    try:
        outcomes = _run_all(cases, subjects, plan, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.merge:
        outcomes = report.merged(args.json, outcomes)
    sys.stdout.write(f"{report.full(outcomes)}\n\n{report.summary(outcomes)}\n")
    report.write(args.json, outcomes, quick=args.quick, plan=asdict(plan))
    say(f"written: {args.json}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
