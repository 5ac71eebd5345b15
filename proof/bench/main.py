"""Command line: ``python -m proof bench [--quick] [--only a,b] [--subjects a,b] [--rounds N]``."""

from __future__ import annotations

import argparse
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path

from proof.bench import bars, report
from proof.bench.registry import SUBJECTS
from proof.bench.results import Results
from proof.bench.runner import Runner, Stores
from proof.bench.scenarios import SCENARIOS
from proof.lab.folders import MEMORY, data_dir, sweep
from proof.lab.report import choose, names, say, write

OUTPUT = Path(__file__).resolve().parent / "results"


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: minutes, more noise")
    parser.add_argument("--only", type=names, default=[], help="scenarios, comma separated")
    parser.add_argument("--subjects", type=names, default=[], help="subjects, comma separated")
    parser.add_argument("--rounds", type=int, default=2, help="rounds (default 2)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the shuffled order")
    parser.add_argument("--data-dir", type=Path, default=None, help="folder on a real disk")
    parser.add_argument("--json", type=Path, default=OUTPUT / "latest.json", help="result file")
    parser.add_argument("--list", action="store_true", help="list scenarios and subjects")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run, print, write."""
    args = _arguments(argv)
    try:
        chosen, subjects = choose(SCENARIOS, args.only), choose(SUBJECTS, args.subjects)
    except ValueError as error:
        say(f"error: {error}")
        return 2
    if args.list:
        lines = [f"scenario {s.name}: {s.title}" for s in chosen]
        lines += [
            f"subject {s.name} ({s.store}, {s.role}) {s.missing()}".rstrip() for s in subjects
        ]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 16)
    sweep(MEMORY)
    results, stores = Results(), Stores(data_dir(args.data_dir))
    say(f"seed {seed}, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    try:
        runner = Runner(stores, results, OUTPUT / "logs", quick=args.quick)
        runner.run(chosen, runner.prepare(subjects), args.rounds, seed)
    except KeyboardInterrupt:
        say("interrupted: reporting what was measured")
    finally:
        stores.stop()
    verdicts = bars.judge(results)
    sys.stdout.write(report.full(results, chosen, verdicts) + "\n")
    head = {"quick": args.quick, "rounds": args.rounds, "seed": seed}
    write(args.json, head | {"bars": [asdict(b) for b in verdicts]} | results.as_dict())
    return 0
