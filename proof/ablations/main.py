"""Command line: ``python -m proof ablations [NAME ...] [--seeds N] [--smallest] [--keep]``.

Turns each safeguard off in turn and prints how many seeds of the simulator it took until a law was broken.
Exit code 1 if no law was broken without one of them. ``--keep`` writes runs that notice it to
`seeds.toml`, with which the tests begin: do so when the tests have become slow.
"""

from __future__ import annotations

import argparse

from holdfast.sim.swarm import differences, plan as drawn
from proof.ablations import ABLATIONS
from proof.ablations.catch import SEEDS_MAX, Catch, caught, smallest
from proof.ablations.kept import keep
from proof.lab.report import markdown, say

HEADER = ("without", "behaviour", "seeds until noticed", "law that complained first")


def main(argv: list[str]) -> int:
    args = _arguments(argv)
    rows, shown, all_caught = [], [], True
    for name in args.names or ABLATIONS:
        catch = keep(name, args.seeds) if args.keep else caught(name, args.seeds)
        seeds, law = (str(catch.seeds), catch.law) if catch else (f"not in {args.seeds}", "none")
        say(f"{name}: {seeds}, {law}")
        rows.append((f"`{name}`", ABLATIONS[name].without, seeds, law))
        all_caught = all_caught and catch is not None
        if catch is not None and args.smallest:
            shown.append(_smallest(name, catch))
    print("\n\n".join([markdown(HEADER, rows), *shown]))
    return 0 if all_caught else 1


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof ablations", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ABLATIONS)}; all by default")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, from seed 0 on")
    parser.add_argument("--smallest", action="store_true", help="shrink the failure and draw it")
    parser.add_argument(
        "--keep", action="store_true", help="keep short runs that notice it, for the tests"
    )
    args = parser.parse_args(argv)
    if unknown := [name for name in args.names if name not in ABLATIONS]:
        parser.error(f"no such ablation: {', '.join(unknown)}; choose from {', '.join(ABLATIONS)}")
    if args.seeds < 1:
        parser.error(f"--seeds is {args.seeds}: give at least 1")
    return args


def _smallest(name: str, catch: Catch) -> str:
    small = smallest(name, catch)
    plan = " ".join(
        f"{figure}={text}" for figure, text in differences(small.plan, drawn(small.plan.seed))
    )
    return (
        f"without {name}, smallest run: seed {small.plan.seed} {plan}\n"
        f"{small.law}: {small.verdict.broken[small.law][0]}\n\n{small.verdict.timeline}"
    )
