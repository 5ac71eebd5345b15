"""The reference pages agree with the code.

python -m tests.test_docs        # writes the generated pages
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import pytest

from holdfast import (
    BlockingContext,
    Context,
    Reject,
    Snooze,
    Task,
    TaskHandle,
    TaskQueue,
)
from holdfast.cli.tree import BY_PATH, NOUNS
from holdfast.core.task import TERMINAL, TRANSITIONS, Status
from holdfast.errors import HoldfastError
from holdfast.metrics import Family
from holdfast.queue.define import TypeOptions
from holdfast.queue.settings import Settings
from holdfast.testing import harness
from tests import error_tree
from tests.public import FACES, OTHERS, PUBLIC
from tests.test_tidy import NOT_PLAIN

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
SRC = ROOT / "src" / "holdfast"
KIND = re.compile(r"^(?:task|queue|node|schedule|lock)\.[a-z_]+$")


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """The rows of the tables of a page, by the code in their first cell."""
    by_name = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `"):
            by_name[cells[0].strip("`")] = cells[1:]
    return by_name


def test_every_setting_is_documented() -> None:
    documented = rows(page("settings.md"))
    assert list(documented) == list(Settings.__struct_fields__)
    for name, (default, _) in documented.items():
        value = getattr(Settings(), name)
        shown = default.split(" (")[0].replace(" ", "").strip("`")
        assert shown == str(value if value is None else f"{value:g}" if value < 1e6 else int(value))


def emitted() -> dict[str, set[str]]:
    """The kinds of events in the sources, with the fields that the code sets."""
    kinds: dict[str, set[str]] = {}
    for folder in ("core", "store", "engine", "queue"):
        for path in (SRC / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and KIND.match(str(node.value)):
                    kinds.setdefault(str(node.value), set())
                if isinstance(node, ast.Call) and node.args:
                    first = node.args[0]
                    if isinstance(first, ast.Constant) and KIND.match(str(first.value)):
                        names = {k.arg for k in node.keywords if k.arg}
                        kinds.setdefault(str(first.value), set()).update(names)
    return kinds


def test_every_event_is_documented() -> None:
    documented = rows(page("events.md"))
    kinds = emitted()
    assert set(documented) == set(kinds)
    for kind, fields in kinds.items():
        missing = [name for name in fields if f"`{name}`" not in documented[kind][1]]
        assert missing == [], kind


async def test_events_have_the_fields_that_are_documented() -> None:
    """Produces most kinds of events, and compares each event with its row."""
    queue = TaskQueue("sqlite://")
    documented = {
        kind: set(re.findall(r"`(\w+)`", cells[1]))
        for kind, cells in rows(page("events.md")).items()
    }

    async def odd(task: Task, ctx: Context) -> object:
        await ctx.progress(0.5)
        await ctx.save(1)
        match task.payload:
            case "snooze" if task.fence == 1:
                return Snooze(1.0)
            case "fail":
                raise ValueError("x")
            case "reject":
                raise Reject("x")
        return "y" * 5000 if task.payload == "long" else 1

    queue.register_handler("odd", odd, max_attempts=2)
    async with harness(queue) as h:
        for payload in ("snooze", "fail", "long", "fine"):
            await queue.enqueue("odd", payload, delay=1)
        parent = await queue.enqueue("odd", "reject")
        await queue.enqueue("odd", depends_on=[parent])
        await h.advance(20)
        await queue.replay_dead_task(parent, payload="fine")
        await queue.pause_queue()
        waiting = await queue.enqueue("odd")
        await queue.edit_task(waiting, 5)
        await queue.cancel(waiting)
        await queue.resume_queue()
        await h.run_until_idle()
        events = [event async for event in queue.events(follow=False)]
    for event in events:
        assert set(event.data) <= documented[event.kind], event
    assert len({event.kind for event in events}) > 12


def test_every_error_code_is_documented() -> None:
    assert page("errors.md") == errors_page()


def test_the_states_page_is_the_table() -> None:
    assert page("states.md") == states_page()


def test_every_metric_is_documented() -> None:
    assert page("metrics.md") == metrics_page(), "run: python -m tests.test_docs"
    names = [family.name for families in all_families().values() for family in families]
    assert len(names) == len(set(names))


def test_links_lead_somewhere() -> None:
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_file_that_an_explanation_names_exists() -> None:
    missing = [
        f"{path.name}: {name}"
        for path in [ROOT / "ARCHITECTURE.md", *(DOCS / "explanation").glob("*.md")]
        for name in re.findall(r"`([\w/.]+\.(?:py|sql|toml|md))`", path.read_text("utf-8"))
        if not any((folder / name).exists() for folder in (ROOT, SRC))
    ]
    assert missing == []


def test_pages_that_are_written_by_hand_have_plain_words() -> None:
    """The text of generated pages comes from the code, which `test_tidy` checks."""
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    assert [
        f"{path.name}:{number} {match[0]}"
        for path in pages
        if path.name != "CHANGELOG.md" and "\nGenerated from " not in path.read_text("utf-8")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        for match in NOT_PLAIN.finditer(line)
    ] == []


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


@pytest.mark.parametrize("path", ["README.md", "docs/howto/tasks.md"])
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


def programs(path: Path) -> dict[str, str]:
    """The Python blocks of a page as files. A block that begins with `# NAME.py` is a file, and the others
    together are one program. Blocks that do not compile (an `await` outside a function) are skipped."""
    files: dict[str, str] = {}
    for block in EXAMPLE.findall(path.read_text("utf-8")):
        try:
            compile(block, path.name, "exec")
        except SyntaxError:
            continue
        named = re.match(r"# (\w+\.py)\n", block)
        name = named[1] if named else f"page_{path.stem.lower()}.py"
        files[name] = f"{files[name]}\n\n{block}" if name in files else block
    return files


def test_the_programs_of_the_pages_pass_a_strict_type_check(tmp_path: Path) -> None:
    for path in [ROOT / "README.md", *sorted((DOCS / "howto").glob("*.md"))]:
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


def test_every_command_that_a_page_names_exists() -> None:
    """Checks each `holdfast NOUN VERB` against the command tree."""
    wrong = []
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "ARCHITECTURE.md"]:
        for words in re.findall(r"`holdfast ([a-z][a-z -]*)", path.read_text("utf-8")):
            first, _, rest = words.strip().partition(" ")
            named = (
                f"{first} {rest.split(' ')[0]}" if first in NOUNS and rest[:1].isalpha() else first
            )
            if named not in BY_PATH and named not in NOUNS:
                wrong.append(f"{path.name}: holdfast {words}")
    assert wrong == []


# -- generated pages -----------------------------------------------------------------------------------


def states_page() -> str:
    lines = [
        "# States",
        "",
        "Generated from `TRANSITIONS` in `src/holdfast/core/task.py` by `python -m tests.test_docs`.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> blocked: depends on others",
        "    [*] --> queued",
    ]
    for before in Status:
        lines += [f"    {before} --> {after}" for after in Status if after in TRANSITIONS[before]]
    lines += [f"    {status} --> [*]" for status in Status if status in TERMINAL]
    lines += [
        "```",
        "",
        "| status | may become |",
        "|---|---|",
    ]
    for before in Status:
        nexts = ", ".join(f"`{a}`" for a in Status if a in TRANSITIONS[before])
        lines.append(f"| `{before}` | {nexts or 'nothing (final)'} |")
    lines += [
        "",
        "Only a claim moves `queued` to `running`. A failure with attempts left returns to `queued` in one",
        "transaction, with the time of the next attempt. A task that rests in `failed` is a dead letter.",
        "It becomes `blocked` again when the parent that it failed with is replayed. If another parent is",
        "dead too, it stays a dead letter with that parent as its cause.",
        "",
        "No rule moves a task to `stuck` yet, and `paused` is left by resume (`queued`) or abort only. The",
        "other transitions of these two are reserved.",
        "",
    ]
    return "\n".join(lines)


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Generated from the `errors` modules by `python -m tests.test_docs`. Every error that Holdfast",
        "raises is a `HoldfastError` with a stable `code`; `retryable` says whether the same call may",
        "succeed later. The other columns are its HTTP status, gRPC status and exit code.",
    ]
    for module in error_tree.modules():
        lines += ["", f"## `{module}`", "", *table_of(module)]
    return "\n".join([*lines, "", "## The tree", "", "```", *tree(HoldfastError), "```", ""])


def table_of(module: str) -> list[str]:
    return [
        "| code | class | is a | retryable | HTTP | gRPC | exit |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| `{error.code}` | `{error.__name__}` | `{error.__mro__[1].__name__}` "
            f"| {'yes' if error.retryable else 'no'} "
            f"| {error.http_status} | {error.grpc_status} | {error.exit_code} |"
            for error in error_tree.in_order()
            if error.__module__ == module
        ),
    ]


def tree(error: error_tree.Error, here: str = "", below: str = "") -> list[str]:
    """One line for each error, with the first line of its docstring."""
    summary = (error.__doc__ or "").splitlines()[0]
    lines = [f"{here + error.__name__:<32} {summary}"]
    children = error_tree.children(error)
    for child in children:
        is_last = child is children[-1]
        lines += tree(
            child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  ")
        )
    return lines


def all_families() -> dict[str, list[Family]]:
    """The `FAMILIES` of all modules that declare them, by module."""
    by_module: dict[str, list[Family]] = {}
    for path in sorted(SRC.rglob("*.py")):
        if not re.search(r"^FAMILIES\b", path.read_text("utf-8"), re.MULTILINE):
            continue
        name = ".".join(path.relative_to(SRC.parent).with_suffix("").parts)
        by_module[name] = list(importlib.import_module(name).FAMILIES)
    return by_module


def metrics_page() -> str:
    lines = [
        "# Metrics",
        "",
        "Generated from the `FAMILIES` of each part by `python -m tests.test_docs`. A part counts if it has",
        "a meter: `Metrics(FAMILIES, ...)` keeps the figures and renders them for Prometheus, and",
        "`holdfast.primitives.prometheus.collector(metrics)` adds them to a `prometheus_client` registry.",
        "A label has at most 100 values; further values are counted under `other`.",
    ]
    for module, families in all_families().items():
        lines += ["", f"## `{module}`", "", "| name | kind | labels | what |", "|---|---|---|---|"]
        for family in families:
            labels = ", ".join(f"`{label}`" for label in family.labels)
            lines.append(f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} |")
    return "\n".join([*lines, ""])


def public_page() -> str:
    lines = [
        "# Public names",
        "",
        "Generated from `tests/public.py` by `python -m tests.test_docs`. These names are public: a",
        "change that breaks them is in the [changelog](../../CHANGELOG.md). The command line and the",
        "pages of this reference are public too. Every other module is internal and may change without",
        "notice: `holdfast.core`, `.store`, `.bus`, `.engine`, `.queue`, `.primitives`, `.sim`, `.cli`,",
        "the parts of `holdfast.orders` and `holdfast.testing`, and every name with a leading underscore.",
        "",
        "| import from | names |",
        "|---|---|",
        *(f"| `{module}` | {names_of(module)} |" for module in FACES),
        "",
        "Errors, clocks and metrics:",
        "",
        "| import from | names |",
        "|---|---|",
        *(f"| `{module}` | {names_of(module)} |" for module in OTHERS),
    ]
    return "\n".join([*lines, ""])


def names_of(module: str) -> str:
    return ", ".join(f"`{name}`" for name in PUBLIC[module])


def test_the_page_of_public_names_is_up_to_date() -> None:
    assert page("public.md") == public_page()


def test_pages_and_examples_import_public_names_only() -> None:
    texts = [
        (f"{path.name}: {block.splitlines()[0]}", block)
        for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
        for block in EXAMPLE.findall(path.read_text("utf-8"))
    ]
    texts += [(path.name, path.read_text("utf-8")) for path in (ROOT / "examples").glob("*.py")]
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


PRODUCT = {
    "TaskQueue": TaskQueue,
    "Context": Context,
    "BlockingContext": BlockingContext,
    "TaskHandle": TaskHandle,
}
INNER = {
    "do_step",
    "step_ask",
    "request_cancel",
    "before_fork",
    "after_fork_in_parent",
    "start_over",
}
"""Called by the engine and at a fork only."""


def queue_page() -> str:
    lines = [
        "# The queue in Python",
        "",
        "Generated from the docstrings by `python -m tests.test_docs`. How to use it:",
        "[howto/tasks.md](../howto/tasks.md). Every error is in [errors.md](errors.md).",
    ]
    for title, cls in PRODUCT.items():
        lines += ["", f"## `{title}`", "", inspect.cleandoc(cls.__doc__ or "")]
        for name in public_names(cls):
            lines += ["", f"### `{name}`", "", *member(cls, name)]
    lines += ["", "## Options of a task type", ""]
    lines += ["`@queue.task(...)` and `queue.register_handler(...)` take:", ""]
    lines += [inspect.cleandoc(TypeOptions.__doc__ or ""), "", "| option | type |", "|---|---|"]
    for name, kind in get_type_hints(TypeOptions).items():
        shown = kind.__name__ if isinstance(kind, type) else str(kind)
        shown = shown.replace("holdfast.core.task.", "").replace("|", "\\|")
        lines.append(f"| `{name}` | `{shown}` |")
    return "\n".join([*lines, ""])


def public_names(cls: type) -> list[str]:
    """The public names of a class and its bases in Holdfast, in the order of their definition."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("holdfast."):
            names.update(dict.fromkeys(n for n in vars(base) if not n.startswith("_")))
    return [name for name in names if name not in INNER]


def member(cls: type, name: str) -> list[str]:
    attribute = inspect.getattr_static(cls, name)
    text = inspect.cleandoc(getattr(cls, name).__doc__ or "")
    if callable(attribute):
        shown = signature_of(attribute).replace("(self, ", "(").replace("(self)", "()")
        shown = shown.replace("holdfast.", "")
        kind = "async " if is_async(attribute) else ""
        return ["```", f"{kind}{name}{shown}", "```", "", text]
    return [text] if isinstance(attribute, property) else []


class Bare(str):
    """An annotation, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def signature_of(function: Callable[..., object]) -> str:
    """The signature as in the source: annotations without quotes, string defaults with quotes."""
    signature = inspect.signature(function)
    bare_parameters = [
        p.replace(annotation=bare(p.annotation)) for p in signature.parameters.values()
    ]
    shown = str(
        signature.replace(
            parameters=bare_parameters, return_annotation=bare(signature.return_annotation)
        )
    )
    return re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", shown)


def bare(annotation: object) -> object:
    return Bare(annotation) if isinstance(annotation, str) else annotation


def is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def test_the_page_of_the_queue_is_up_to_date() -> None:
    assert page("queue.md") == queue_page()


def test_the_signatures_of_the_page_are_python() -> None:
    """A reader can copy the signatures: all defaults are shown, and none as an object of this process."""
    text = page("queue.md")
    shown = re.findall(r"^```\n(?:async )?(\w+\(.*)\n```", text, re.MULTILINE)
    assert len(shown) > 40
    for signature in shown:
        ast.parse(f"def {signature}: ...")
    assert re.findall(r"ForwardRef|<\w+\.| at 0x", text) == []


def test_everything_public_of_the_queue_has_a_docstring() -> None:
    missing = [
        f"{title}.{name}"
        for title, cls in PRODUCT.items()
        for name in public_names(cls)
        if callable(inspect.getattr_static(cls, name)) and not getattr(cls, name).__doc__
    ]
    assert missing == []


if __name__ == "__main__":
    (REFERENCE / "queue.md").write_text(queue_page(), "utf-8")
    (REFERENCE / "states.md").write_text(states_page(), "utf-8")
    (REFERENCE / "errors.md").write_text(errors_page(), "utf-8")
    (REFERENCE / "metrics.md").write_text(metrics_page(), "utf-8")
    (REFERENCE / "public.md").write_text(public_page(), "utf-8")
