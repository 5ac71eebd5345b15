"""Holdfast on PostgreSQL."""

from __future__ import annotations

from benchmarks.subjects._holdfast import HoldfastSubject
from benchmarks.subjects._protocol import main

if __name__ == "__main__":
    main(HoldfastSubject)
