"""Every extra of the package has code that uses it, and every error about a missing one names it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MODULES = {
    "django-tasks": "django_tasks",
    "grpcio": "grpc",
    "opentelemetry-api": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "protobuf": "google.protobuf",
}
"""Packages whose modules have another name."""
SOURCE = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))


def names(extra: str) -> list[str]:
    return [re.match(r"[\w-]+", requirement)[0] for requirement in EXTRAS[extra]]  # type: ignore[index]


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"all"}))
def test_an_extra_has_code(extra: str) -> None:
    for name in names(extra):
        module = re.escape(MODULES.get(name, name))
        used = rf"^\s*(?:import|from) {module}\b|[\"']{module}[\"']"
        assert re.search(used, SOURCE, re.MULTILINE), name


def test_all_has_every_extra() -> None:
    [everything] = EXTRAS["all"]
    assert everything == f"holdfast[{','.join(sorted(EXTRAS.keys() - {'all'}))}]"


def test_errors_name_extras_that_exist() -> None:
    named = set(re.findall(r"holdfast\[([\w,]+)\]", SOURCE))
    assert {part for text in named for part in text.split(",")} <= EXTRAS.keys()
