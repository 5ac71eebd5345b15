"""Command line: ``python -m proof ablations|bench|chaos|endurance|fleet|hub|scale [options]``.

Each program has its own ``--help``.
"""

from __future__ import annotations

import importlib
import sys

PROGRAMS = {
    "ablations": "the product without one safeguard in the simulator: a law must be broken",
    "bench": "Holdfast and its peers, measured side by side",
    "chaos": "faults on real processes, networks, servers and disks, with peers for comparison",
    "fleet": "1,000 simulated agents over a bad network, seed by seed, every law checked",
    "hub": "gateways, workers, watchers and offline nodes as processes, under kills and restarts",
    "scale": "what a task and a watcher cost, and where one PostgreSQL ends",
    "endurance": "long runs: an old reader, memory, sizes, pruning",
}


def main(argv: list[str]) -> int:
    name, *rest = argv or ["--help"]
    if name in PROGRAMS:
        status: int = importlib.import_module(f"proof.{name}.main").main(rest)
        return status
    lines = [__doc__ or "", *(f"  {name:10} {text}" for name, text in PROGRAMS.items())]
    is_help = name in ("-h", "--help")
    (sys.stdout if is_help else sys.stderr).write("\n".join(lines) + "\n")
    return 0 if is_help else 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
