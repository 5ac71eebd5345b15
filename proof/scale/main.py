"""Command line: ``python -m proof scale [costs model] [--quick] [--results FOLDER]``.

`costs` measures and writes `costs.json`, about ten minutes. `model` reads it, computes where one PostgreSQL
ends, and writes `scale.md`, about a minute.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof.lab.folders import data_dir
from proof.lab.report import say, write
from proof.lab.servers import STOCK, Postgres
from proof.scale import costs, report

RESULTS = Path(__file__).resolve().parent / "results"
STEPS: dict[str, Callable[[costs.Lab], Any]] = {
    "tasks on postgres": lambda lab: costs.tasks(lab, "postgres"),
    "tasks on sqlite": lambda lab: costs.tasks(lab, "sqlite"),
    "feed": costs.feed,
    "idle on postgres": lambda lab: costs.idle(lab, "postgres"),
    "idle on sqlite": lambda lab: costs.idle(lab, "sqlite"),
    "writers": costs.writers,
}


def measured(sizes: costs.Sizes, data: Path | None = None) -> dict[str, Any]:
    """All costs."""
    root = data_dir(data)
    found: dict[str, Any] = {}
    try:
        with Postgres(base=root, preset=STOCK, track_wal_io_timing="on") as postgres:
            lab = costs.Lab(root, postgres, sizes)
            for name, step in STEPS.items():
                started_at = time.monotonic()
                say(name)
                found[name] = step(lab)
                say(f"{name}: {time.monotonic() - started_at:.0f} s")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return found


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof scale", description=__doc__)
    parser.add_argument("parts", nargs="*", help="of costs, model; both by default")
    parser.add_argument("--quick", action="store_true", help="small: to see that it works")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results go")
    args = parser.parse_args(argv)
    parts = args.parts or ["costs", "model"]
    if unknown := sorted(set(parts) - {"costs", "model"}):
        say(f"error: no part is called {unknown[0]}: the parts are costs, model")
        return 2
    path: Path = args.results / "costs.json"
    if "costs" in parts:
        write(path, measured(costs.QUICK if args.quick else costs.Sizes()))
    if "model" in parts:
        text = report.text(json.loads(path.read_text()), is_quick=args.quick)
        (args.results / "scale.md").write_text(text + "\n")
        sys.stdout.write(text + "\n")
    return 0
