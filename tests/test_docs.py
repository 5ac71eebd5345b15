"""The pages that are written by hand agree with the code."""

from __future__ import annotations

import ast
import re

from holdfast import (
    Context,
    Reject,
    Snooze,
    Task,
    TaskQueue,
)
from holdfast.cli.main import TOPIC_NAMES
from holdfast.cli.tree import BY_PATH, NOUNS
from holdfast.queue.settings import Settings
from holdfast.testing import harness
from tests.pages import DOCS, ROOT, SRC, page
from tests.test_tidy import NOT_PLAIN

KIND = re.compile(
    r"^(?:block|checkpoint|conflict|decision|group|host|intervention|job|task|queue|node|schedule|lock|token|type|webhook)"
    r"\.[a-z_]+$"
)


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
        if isinstance(value, int | float):
            value = f"{value:g}" if value < 1e6 else int(value)
        assert shown == str(value)


def emitted() -> dict[str, set[str]]:
    """The kinds of events in the sources, with the fields that the code sets."""
    kinds: dict[str, set[str]] = {}
    for folder in ("core", "store", "engine", "queue", "sync", "fleet"):
        for path in (SRC / folder).rglob("*.py"):
            if path.name in ("event_kinds.py", "subscription.py"):
                continue  # Tables that also have kinds of parts that are not there yet, and names of frames.
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


def test_links_lead_somewhere() -> None:
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_test_that_a_page_names_exists() -> None:
    named = [
        (path.name, *match)
        for path in DOCS.rglob("*.md")
        for match in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", path.read_text("utf-8"))
    ]
    assert len(named) > 10
    for name, file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{name}: {file}::{test}"


def test_every_bound_is_where_the_page_says() -> None:
    wrong = []
    for line in page("limits.md").splitlines():
        folder = ""
        for name in re.findall(r"`([\w.]+)`", (line.split("|") + [""] * 4)[3]):
            module, _, constant = (name if "." in name else f"{folder}.{name}").rpartition(".")
            if constant.isupper() and module:
                folder = module
                path = SRC / f"{module.replace('.', '/')}.py"
                if not path.exists() or not re.search(
                    rf"^{constant}\b.* = ", path.read_text(), re.MULTILINE
                ):
                    wrong.append(f"{module}.{constant}")
            elif "." in name and not (SRC / f"{name.replace('.', '/')}.py").exists():
                wrong.append(name)
    assert wrong == []


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


def test_every_command_that_a_page_names_exists() -> None:
    """Checks each `holdfast NOUN VERB` against the command tree."""
    wrong = []
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "ARCHITECTURE.md"]:
        for words in re.findall(r"`holdfast ([a-z][a-z -]*)", path.read_text("utf-8")):
            first, _, rest = words.strip().partition(" ")
            if first == "help" and set(rest.split("|")) <= set(TOPIC_NAMES):
                continue
            named = (
                f"{first} {rest.split(' ')[0]}" if first in NOUNS and rest[:1].isalpha() else first
            )
            if named not in BY_PATH and named not in NOUNS:
                wrong.append(f"{path.name}: holdfast {words}")
    assert wrong == []
