"""The subjects: which adapter, in which environment, on which store."""

from __future__ import annotations

from proof.lab.session import SubjectSpec


def _spec(name: str, adapter: str, store: str, *, venv: str = "") -> SubjectSpec:
    return SubjectSpec(name, f"proof.chaos.subjects.{adapter}", store, venv)


SUBJECTS = (
    _spec("holdfast-pg", "holdfast", "postgres"),
    _spec("holdfast-sqlite", "holdfast", "sqlite"),
    _spec("celery", "celery", "redis", venv="celery"),
    _spec("procrastinate", "procrastinate", "postgres", venv="procrastinate"),
    _spec("pgqueuer", "pgqueuer", "postgres", venv="pgqueuer"),
)
