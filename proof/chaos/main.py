"""Command line: ``python -m proof chaos [--cases a,b] [--subjects a,b] [--quick]``."""

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

from proof.chaos import report
from proof.chaos.cases import CASES, Case
from proof.chaos.plan import QUICK, Plan
from proof.chaos.registry import SUBJECTS
from proof.chaos.runner import Outcome, run
from proof.lab.folders import MEMORY, data_dir, sweep
from proof.lab.report import choose, names, say, write
from proof.lab.session import SubjectSpec
from proof.lab.venvs import VenvError

OUTPUT = Path(__file__).resolve().parent / "results"


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof chaos", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter phases: to see that it works")
    parser.add_argument("--cases", type=names, default=[], help="cases, comma separated")
    parser.add_argument("--subjects", type=names, default=[], help="subjects, comma separated")
    parser.add_argument("--data-dir", type=Path, default=None, help="folder on a real disk")
    parser.add_argument("--json", type=Path, default=OUTPUT / "latest.json", help="result file")
    parser.add_argument("--merge", action="store_true", help="keep other cells of the result file")
    parser.add_argument("--list", action="store_true", help="list cases and subjects")
    return parser.parse_args(argv)


def _pythons(subjects: Sequence[SubjectSpec]) -> dict[str, Path]:
    pythons = {}
    for spec in subjects:
        try:
            pythons[spec.name] = spec.python()
        except (VenvError, OSError) as error:
            say(f"skip {spec.name}: cannot be installed: {error}")
    return pythons


def _run_all(
    cases: Sequence[Case], subjects: Sequence[SubjectSpec], plan: Plan, folder: Path
) -> list[Outcome]:
    pythons = _pythons(subjects)
    work = [
        (case, spec)
        for case in cases
        for spec in subjects
        if spec.name in pythons and spec.store in case.stores
        if not case.subjects or spec.name in case.subjects
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


def main(argv: list[str]) -> int:
    """Run, print, write."""
    args = _arguments(argv)
    try:
        cases, subjects = choose(CASES, args.cases), choose(SUBJECTS, args.subjects)
    except ValueError as error:
        say(f"error: {error}")
        return 2
    if args.list:
        lines = [f"case {c.name}: {c.title} ({', '.join(sorted(c.stores))})" for c in cases]
        lines += [f"subject {s.name} ({s.store})" for s in subjects]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    plan = QUICK if args.quick else Plan()
    sweep(MEMORY)
    folder = data_dir(args.data_dir)
    say(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    try:
        outcomes = _run_all(cases, subjects, plan, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.merge:
        outcomes = report.merged(args.json, outcomes)
    sys.stdout.write(f"{report.full(outcomes)}\n\n{report.summary(outcomes)}\n")
    head = {"quick": args.quick, "plan": asdict(plan)}
    write(args.json, head | {"outcomes": [outcome.as_dict() for outcome in outcomes]})
    return 0
