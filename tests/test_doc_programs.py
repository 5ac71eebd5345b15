"""The programs of the pages run, pass a strict type check and import public names only."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import DOCS, ROOT
from tests.public import PUBLIC

EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_examples_of_the_testing_page_run(tmp_path: Path) -> None:
    """Together the blocks are one test file, which pytest runs without plugins of this repository."""
    text = (DOCS / "howto" / "testing.md").read_text("utf-8")
    (tmp_path / "test_examples.py").write_text("\n\n".join(EXAMPLE.findall(text)))
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-o", "addopts="),
            *("--rootdir", str(tmp_path), "-p", "no:valkey", "-p", "no:platformdirs"),
            *("-p", "no:cacheprovider", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"[5-9] passed", ran.stdout), ran.stdout


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/howto/tasks.md",
        "docs/howto/middleware.md",
        "docs/howto/groups.md",
        "docs/howto/hub.md",
        "docs/howto/watching.md",
    ],
)
def test_the_first_program_of_a_page_runs_as_it_stands(path: str, tmp_path: Path) -> None:
    """The program has a main guard, so a worker or a handler process can import it."""
    text = (ROOT / path).read_text("utf-8")
    (tmp_path / "program.py").write_text(EXAMPLE.findall(text)[0])
    outputs = [
        subprocess.run(
            [sys.executable, *how], capture_output=True, text=True, cwd=tmp_path, check=True
        ).stdout
        for how in (("program.py",), ("-c", "import program"))
    ]
    promised = re.search(r"It prints:\n\n```\n(.*?)```", text, re.DOTALL)
    assert outputs == [promised[1] if promised else "sent 'Hello' to a@example.com\n", ""]


@pytest.mark.parametrize("name", ["schedules", "tasks"])
def test_the_further_programs_of_a_page_can_be_imported(name: str, tmp_path: Path) -> None:
    """Each defines tasks; opening the store is left to a worker of it."""
    for block in EXAMPLE.findall((DOCS / "howto" / f"{name}.md").read_text("utf-8")):
        if "from holdfast import" in block:
            (tmp_path / "program.py").write_text(block)
            subprocess.run([sys.executable, "-c", "import program"], cwd=tmp_path, check=True)


def programs(path: Path) -> dict[str, str]:
    """The Python blocks of a page as files. A block that begins with `# NAME.py` is a file, which replaces an
    earlier one of that name. The others together are one program. Blocks that do not compile (an `await`
    outside a function) are skipped."""
    files: dict[str, str] = {}
    for block in EXAMPLE.findall(path.read_text("utf-8")):
        try:
            compile(block, path.name, "exec")
        except SyntaxError:
            continue
        named = re.match(r"# (\w+\.py)\n", block)
        name = named[1] if named else f"page_{path.stem.lower()}.py"
        files[name] = f"{files[name]}\n\n{block}" if name in files and not named else block
    return files


def test_the_programs_of_the_pages_pass_a_strict_type_check(tmp_path: Path) -> None:
    pages = sorted((DOCS / "howto").glob("*.md"))
    for path in [ROOT / "README.md", DOCS / "tutorial.md", *pages]:
        if path.name == "django.md":
            continue  # Django has no types.
        for name, text in programs(path).items():
            assert not (tmp_path / name).exists(), f"{path.name}: a second {name}"
            (tmp_path / name).write_text(text, "utf-8")
    assert len(list(tmp_path.iterdir())) >= 17
    # The cache avoids a new check of Holdfast, which the pages import, unless it has changed.
    cache = ROOT / ".mypy_cache" / "pages"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"),
            *("--python-executable", sys.executable, "--cache-dir", str(cache), "."),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)


def test_pages_and_examples_import_public_names_only() -> None:
    texts = [
        (f"{path.name}: {block.splitlines()[0]}", block)
        for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
        for block in EXAMPLE.findall(path.read_text("utf-8"))
    ]
    texts += [(path.name, path.read_text("utf-8")) for path in (ROOT / "examples").rglob("*.py")]
    names = [(place, *name) for place, text in texts for name in imported_names(text)]
    assert len(names) > 20
    assert [
        (place, module, name)
        for place, module, name in names
        if name not in PUBLIC.get(module, ()) and f"{module}.{name}".rstrip(".") not in PUBLIC
    ] == []


def imported_names(text: str) -> list[tuple[str, str]]:
    """Modules and names of Holdfast that a piece of Python imports. It need not be complete. The name is
    empty for a whole module."""
    flat = re.sub(r"\(([^)]*)\)", lambda match: match[1].replace("\n", " "), text)
    found = [
        (match[1], name.split()[0])
        for match in re.finditer(r"^\s*from (holdfast[\w.]*) import ([^#\n]+)", flat, re.MULTILINE)
        for name in match[2].split(",")
        if name.strip()
    ]
    whole = re.findall(r"^\s*import (holdfast[\w.]*)", flat, re.MULTILINE)
    return found + [(module, "") for module in whole]
