"""Holdfast on SQLite; pick-up latency is measured in one process, as an embedded queue is used."""

from __future__ import annotations

from benchmarks.subjects._holdfast import HoldfastSubject
from benchmarks.subjects._protocol import main


class Embedded(HoldfastSubject):
    """Workers may run beside the producer."""

    embedded = True


if __name__ == "__main__":
    main(Embedded)
