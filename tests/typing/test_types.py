"""mypy and pyright find wrong arguments, options and uses of results, and nothing in correct code.

basedpyright is pyright as one wheel: pyright's own wheel fetches its program from the network when it runs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLANTED = HERE / "planted.py"
GOOD = HERE / "good.py"


def wrong_lines() -> set[int]:
    lines = PLANTED.read_text("utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# WRONG")}


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_mypy_finds_the_mistakes() -> None:
    """`make check` looks at the correct calls: they are a file like any other there."""
    out = run(sys.executable, "-m", "mypy", PLANTED)
    found = re.findall(r"planted\.py:(\d+): error: ", out)
    assert {int(number) for number in found} == wrong_lines(), out


def test_pyright_finds_the_mistakes_and_no_others(tmp_path: Path) -> None:
    config = {
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
        "include": [str(PLANTED), str(GOOD)],
        "extraPaths": [str(ROOT / "src")],
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(config), "utf-8")
    program = Path(sys.executable).with_name("basedpyright")
    answer: dict[str, Any] = json.loads(run(program, "--outputjson", "-p", project))
    found: dict[str, set[int]] = {PLANTED.name: set(), GOOD.name: set()}
    for each in answer["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).name].add(each["range"]["start"]["line"] + 1)
    assert found == {PLANTED.name: wrong_lines(), GOOD.name: set()}
