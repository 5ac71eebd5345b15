"""The subjects: which adapter, in which environment, on which store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SubjectSpec:
    """One queue on one store."""

    name: str
    store: str
    venv: str = ""
    """Name of its environment and requirements below benchmarks/peers; empty: this one."""
    adapter: str = ""

    @property
    def module(self) -> str:
        return f"chaos.subjects.{self.adapter or self.venv}"


SUBJECTS = (
    SubjectSpec("holdfast-pg", "postgres", adapter="holdfast"),
    SubjectSpec("holdfast-sqlite", "sqlite", adapter="holdfast"),
    SubjectSpec("celery", "redis", venv="celery"),
    SubjectSpec("procrastinate", "postgres", venv="procrastinate"),
    SubjectSpec("pgqueuer", "postgres", venv="pgqueuer"),
)
