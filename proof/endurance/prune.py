"""Pruning keeps up: short retention under saturating load, compared with windows without pruning."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from proof.endurance.judge import is_level
from proof.endurance.load import FOR_EVER, Load, rate, sampled
from proof.endurance.tables import counts, megabytes
from proof.lab.databases import database
from proof.lab.report import say

KEEP_SECONDS = 5.0


def run(
    *, root: Path, log: Path, postgres: Any, stores: tuple[str, ...], seconds: float
) -> dict[str, Any]:
    """For each store: whether the number of rows stays level, and the cost of pruning."""
    rows = []
    for store in stores:
        kept = _window(root, log, postgres, store, keep=FOR_EVER, seconds=seconds / 3)
        pruned = _window(root, log, postgres, store, keep=KEEP_SECONDS, seconds=seconds)
        ratio = pruned["rate"] / kept["rate"]
        say(f"prune {store}: {ratio:.2f} of the throughput, level: {pruned['level']}")
        rows.append({"store": store, "ratio": round(ratio, 3), "pruned": pruned, "kept": kept})
    return {"keep_seconds": KEEP_SECONDS, "seconds": seconds, "rows": rows}


def _window(
    root: Path, log: Path, postgres: Any, store: str, *, keep: float, seconds: float
) -> dict[str, Any]:
    file = f"sqlite:///{root / f'prune{keep:g}.db'}"
    place: AbstractContextManager[str] = (
        database(postgres, "prune") if store == "postgres" else nullcontext(file)
    )
    with place as url, Load(url, log, keep=keep) as load:
        [samples] = sampled([load], seconds, lambda _: {**counts(url), "megabytes": megabytes(url)})
    return {
        "rate": round(rate(samples), 1),
        "level": {
            name: is_level([sample[name] for sample in samples])
            for name in ("tasks", "records", "megabytes")
        },
        "samples": samples,
    }
