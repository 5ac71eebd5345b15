"""Every extra of the package has code that uses it, and every error about a missing one names it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def brought(requirement: Requirement, seen: set[tuple[str, str]]) -> set[str]:
    """The distributions that an installation of the requirement brings."""
    found: set[str] = {canonicalize_name(requirement.name)}
    for extra in ("", *requirement.extras):
        if (requirement.name, extra) not in seen:
            seen.add((requirement.name, extra))
            for line in distribution(requirement.name).requires or ():
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    found |= brought(needed, seen)
    return found


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"all", "uvloop"}))
def test_an_extra_brings_all_that_its_modules_import(extra: str) -> None:
    """With `holdfast[celery]` alone, the Redis broker of Celery could not be imported: a package that it
    needs comes with another extra of Celery only."""
    needed = [Requirement(text) for text in (*PROJECT["dependencies"], *EXTRAS[extra])]
    seen: set[tuple[str, str]] = set()
    there: set[str] = set()
    for each in needed:
        if each.marker is None or each.marker.evaluate():
            there |= brought(each, seen)
    tops = packages_distributions()
    absent = {
        top
        for top, owners in tops.items()
        if not there & {canonicalize_name(owner) for owner in owners} and top != "holdfast"
    }
    wanted = [MODULES.get(each.name, each.name) for each in map(Requirement, EXTRAS[extra])]
    wanted = [module for module in wanted if module.split(".")[0] in tops]
    wanted += ["kombu.transport.redis"] if extra == "celery" else []
    program = f"import sys; sys.modules.update(dict.fromkeys({sorted(absent)})); import {', '.join(wanted)}"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
