"""Command line: ``python -m proof hub [--seconds 60] [--seed N] [--seeds 1] [--short]``.

Exit code 1 if a law was broken; the logs of the processes are kept then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from proof.hub import report
from proof.hub.judge import judge
from proof.hub.plan import Plan, short
from proof.hub.run import run_plan
from proof.lab.folders import make_folder
from proof.lab.report import say, write

OUTPUT = Path(__file__).resolve().parent / "results"


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof hub", description=__doc__)
    parser.add_argument("--seconds", type=float, default=None, help="how long faults happen")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many runs")
    parser.add_argument("--short", action="store_true", help="the form of the test suite")
    parser.add_argument("--json", type=Path, default=OUTPUT / "latest.json", help="result file")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run, print, write."""
    args = _arguments(argv)
    results = []
    for seed in range(args.seed, args.seed + args.seeds):
        plan = short(seed) if args.short else Plan(seed)
        if args.seconds is not None:
            plan = replace(plan, seconds=args.seconds)
        say(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        folder = make_folder("hub")
        evidence = asyncio.run(run_plan(plan, folder))
        result = report.as_dict(evidence, judge(evidence))
        results.append(result)
        sys.stdout.write(f"{report.as_text(result)}\n\n")
        sys.stdout.flush()
        if any(result["complaints"].values()):
            logs = OUTPUT / "logs" / f"seed-{seed}"
            shutil.rmtree(logs, ignore_errors=True)
            shutil.copytree(folder, logs)
            (logs / "events.jsonl").write_bytes(
                b"".join(msgspec.json.encode(event) + b"\n" for event in evidence.events)
            )
            say(f"logs: {logs}")
        shutil.rmtree(folder, ignore_errors=True)
    write(args.json, {"runs": results})
    return int(any(any(result["complaints"].values()) for result in results))
