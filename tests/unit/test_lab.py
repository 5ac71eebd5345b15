"""The lab without its servers: names on a command line, tables, folders of ended processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proof.bench.registry import SUBJECTS
from proof.bench.scenarios import SCENARIOS
from proof.lab.folders import PREFIX, own_prefix, sweep
from proof.lab.processes import ROOT
from proof.lab.report import choose, markdown, table


def test_a_name_chooses_itself_or_the_names_that_start_with_it() -> None:
    assert [spec.name for spec in choose(SUBJECTS, ["pgqueuer"])] == ["pgqueuer"]
    assert {spec.name for spec in choose(SUBJECTS, ["huey"])} == {
        *("huey-pg", "huey-sqlite", "huey-redis")
    }
    assert choose(SCENARIOS, []) == list(SCENARIOS)
    with pytest.raises(ValueError, match=r"'nope' is not one of enqueue, "):
        choose(SCENARIOS, ["drain", "nope"])


def test_tables_are_aligned_for_a_terminal_and_plain_for_a_page() -> None:
    assert table(["a", "bb"], [["long", "1"]]).splitlines() == ["a     bb", "----  --", "long   1"]
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_only_folders_of_processes_that_ended_are_swept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    old = tmp_path / f"{PREFIX}{ended.pid}-x"
    living = [tmp_path / f"{own_prefix()}x", tmp_path / f"{PREFIX}{os.getppid()}-x"]
    others = [tmp_path / "x", tmp_path / f"{PREFIX}name"]
    for folder in (old, *living, *others):
        folder.mkdir()
    sweep(tmp_path)
    assert not old.exists()
    assert all(folder.exists() for folder in (*living, *others))


@pytest.mark.parametrize(
    "module", ["proof.bench.subject", "proof.chaos.subject", "proof.chaos.journal"]
)
def test_modules_for_adapters_import_only_the_standard_library(module: str) -> None:
    """They run in the environments of peers, which have neither Holdfast nor the tools of the harness."""
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names <= {"__main__", "proof"}
