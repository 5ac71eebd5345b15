"""Rules of style that the linter does not check.

    pytest tests/test_tidy.py -s        # also shows the five largest functions and files

The rules are in CONTRIBUTING.md. The numbers here are the rules, without a list of exceptions.
"""

import ast
import gc
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES_MAX = 70
POSITIONAL_MAX = 5
FILE_LINES_MAX = 400
WORST_SHOWN = 5
GENERATED = ("_pb2", "_pb2_grpc")
"""Ends of the names of modules that protoc writes (`scripts/make_proto.py`)."""

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
WITH_STATEMENTS = (
    "src/holdfast/store/",
    "src/holdfast/orders/sqlstore/",
    "src/holdfast/sync/",
    "src/holdfast/fleet/",
    "src/holdfast/sim/",
)
STATEMENT_CALLS = ("call", "call_rows", "StatementCall")
READ_TOGETHER = ("core", "store", "engine", "queue")
"""Packages that are read together: a class name has one meaning in all of them."""
NOT_PLAIN = re.compile(
    r"(?<![a-z])(?:whoever|somebody|nobody(?![`\"])|anybody|told|anew|in[ _]vain|"
    r"come[ _]what[ _]may|so[ _]many|so[ _]much|of[ _]its[ _]own|be[ _]it)(?![a-z])",
    re.IGNORECASE,
)
"""Words that prose and names avoid: the component is the subject, in standard words (CONTRIBUTING.md)."""
# `nobody` and "nobody" are the name of a Unix user.
SCHEME = re.compile(r"(?:sqlite|postgres(?:ql)?|rediss?|unix|memory)(?::|$)")
SERVER_PREFIX = re.compile(r"sqlite:|(?:postgres(?:ql)?|rediss?|unix):(?://)?")
PREFIX_METHODS = {"startswith", "removeprefix", "partition", "split", "match", "fullmatch"}
SLEEPS = {"time.sleep", "asyncio.sleep"}


class Place(NamedTuple):
    lines: int
    name: str


class Source(NamedTuple):
    """One file with its text and its syntax tree."""

    name: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    def at(self, node: ast.stmt | ast.expr | ast.excepthandler) -> str:
        return f"{self.name}:{node.lineno}"


def read(*folders: str) -> list[Source]:
    paths = sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if not path.stem.endswith(GENERATED)
    )
    texts = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in paths]
    with uncollected():
        return [Source(name, text, ast.parse(text)) for name, text in texts]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection, which would look at all trees again for each tenth of them. It took four
    fifths of the time of parsing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@cache
def product() -> list[Source]:
    """Read by the tests, not at import: every process of a run imports this module."""
    return read("src")


@cache
def sources_of_tests() -> list[Source]:
    return read("tests")


@cache
def ours() -> list[Source]:
    return [*product(), *sources_of_tests(), *read("scripts", "proof", "examples")]


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Frees the trees at the end: with millions of objects each garbage collection of this process takes
    seconds, and the simulator collects after each scenario."""
    yield
    for cached in (product, sources_of_tests, ours):
        cached.cache_clear()


def test_functions_are_short() -> None:
    assert_small(list(functions(product())), FUNCTION_LINES_MAX)


def test_what_can_be_printed_is_decided_in_the_core() -> None:
    """`core/text.py` cleans text and `core/check.py` refuses it; no other module decides it."""
    assert [
        source.at(node)
        for source in product()
        if not source.name.startswith("src/holdfast/core/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "isprintable"
    ] == []


def test_the_scheme_of_a_url_is_recognised_in_one_place() -> None:
    """`core/address.py` maps a URL to its `Scheme`; no other module compares it with text."""
    own = "src/holdfast/core/address.py"
    places = [
        source.at(node)
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr) and compares_scheme(node)
    ]
    assert {place for place in places if place.startswith(own)} != set()
    assert [place for place in places if not place.startswith(own)] == []


def test_the_wheel_has_no_ablation() -> None:
    """Code that turns safeguards off is in `proof/`, which is not installed."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == ["src/holdfast"]
    assert [
        source.name for source in product() if "ablat" in source.name + source.text.lower()
    ] == []
    outside = {"proof", "tests"}
    assert [
        source.name for source in product() if outside & {*imported_packages(source.tree)}
    ] == []


def test_statements_are_named_in_the_store() -> None:
    """Other packages get structs from the verbs of the store. Those in `WITH_STATEMENTS` have statements, or
    break those of the store."""
    others = [source for source in product() if not source.name.startswith(WITH_STATEMENTS)]
    assert len(others) > 100
    assert [
        source.at(node)
        for source in others
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr) and (names_statement(node) or indexes_row(node))
    ] == []


def test_files_are_short() -> None:
    places = [Place(source.text.count("\n"), source.name) for source in product()]
    assert_small(places, FILE_LINES_MAX)


def test_every_module_says_what_it_is() -> None:
    assert [s.name for s in ours() if not ast.get_docstring(s.tree)] == []


def test_nothing_is_left_unfinished() -> None:
    places = [
        f"{source.name}:{number}"
        for source in ours()
        if source.name != "tests/test_tidy.py"
        for number, line in enumerate(source.text.splitlines(), start=1)
        if UNFINISHED.search(line)
    ]
    assert places == []


def test_no_class_name_stands_twice() -> None:
    """Two classes with one name in these packages would give it two meanings."""
    places: dict[str, list[str]] = {}
    for source in product():
        if source.name.startswith(tuple(f"src/holdfast/{package}/" for package in READ_TOGETHER)):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(source.at(node))
    assert len(places) > 100
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_parameters_beyond_the_first_are_named() -> None:
    """A call with more positional arguments does not show the meaning of each."""
    assert [
        f"{source.at(node)} {node.name}"
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and positional_count(node.args) > POSITIONAL_MAX
    ] == []


def test_words_are_plain() -> None:
    """In docstrings, comments, messages and names, in the comments of SQL, and on the pages."""
    texts = {source.name: source.text for source in ours() if source.name != "tests/test_tidy.py"}
    statements = {str(path.relative_to(ROOT)): path for path in (ROOT / "src").rglob("*.sql")}
    assert len(statements) > 20
    pages = {str(path.relative_to(ROOT)): path for path in (ROOT / "web" / "src").rglob("*.ts*")}
    assert len(pages) > 20
    files = (statements | pages).items()
    texts |= {name: path.read_text(encoding="utf-8") for name, path in files}
    assert [
        f"{name}:{number} {match[0]}"
        for name, text in sorted(texts.items())
        for number, line in enumerate(text.splitlines(), start=1)
        for match in NOT_PLAIN.finditer(line)
    ] == []


def test_no_error_is_swallowed() -> None:
    assert [
        s.at(handler) for s in ours() for handler in handlers(s.tree) if swallows(handler)
    ] == []


def test_tests_wait_for_events_not_for_time() -> None:
    assert [s.at(node) for s in sources_of_tests() for node in calls(s.tree) if sleeps(node)] == []


def test_no_test_sets_a_deadline() -> None:
    """No test asserts how fast it is. The profile in tests/conftest.py turns deadlines off."""
    others = [source for source in sources_of_tests() if source.name != "tests/conftest.py"]
    assert [s.at(node) for s in others for node in calls(s.tree) if sets_deadline(node)] == []


def positional_count(args: ast.arguments) -> int:
    names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    return len([name for name in names if name not in {"self", "cls"}])


def functions(sources: Iterable[Source]) -> Iterator[Place]:
    """Every function with its length, from its `def` to its last line."""
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield Place(lines, f"{source.at(node)} {node.name}")


def assert_small(places: list[Place], limit: int) -> None:
    places.sort(reverse=True)
    for place in places[:WORST_SHOWN]:
        print(f"{place.lines:5}  {place.name}")
    assert [place for place in places if place.lines > limit] == []


def handlers(tree: ast.Module) -> Iterator[ast.ExceptHandler]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))


def swallows(handler: ast.ExceptHandler) -> bool:
    """True for a handler of everything that does nothing."""
    is_broad = handler.type is None or ast.unparse(handler.type) in {"Exception", "BaseException"}
    return is_broad and all(is_empty(statement) for statement in handler.body)


def is_empty(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass)


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def imported_packages(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def names_statement(node: ast.expr) -> bool:
    """`call("get_tasks")` and the like, see `holdfast.store.script`."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    is_call = isinstance(node.func, ast.Name) and node.func.id in STATEMENT_CALLS
    is_text = isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    return is_call and is_text


def indexes_row(node: ast.expr) -> bool:
    """`row[4]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "row"
        and isinstance(node.slice, ast.Constant)
    )


def compares_scheme(node: ast.expr) -> bool:
    """`url.startswith("redis:")`, `url == "memory://"`, `urlsplit(url).scheme`, or the prefix of a server's
    URL as a constant."""
    match node:
        case ast.Attribute(attr="scheme"):
            return True
        case ast.Compare():
            return any(map(names_scheme, (node.left, *node.comparators)))
        case ast.Call(func=ast.Attribute(attr=name)) if name in PREFIX_METHODS:
            return any(map(names_scheme, node.args))
        case ast.Constant(value=str(text)):
            return SERVER_PREFIX.fullmatch(text) is not None
        case _:
            return False


def names_scheme(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return SCHEME.match(text) is not None
        case ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return any(map(names_scheme, parts))
        case _:
            return False


def sleeps(call: ast.Call) -> bool:
    """True for a sleep of a fixed time. `asyncio.sleep(0)` only yields to other tasks."""
    if ast.unparse(call.func) not in SLEEPS:
        return False
    return any(isinstance(a, ast.Constant) and a.value != 0 for a in call.args[:1])


def sets_deadline(call: ast.Call) -> bool:
    """True for `settings(deadline=…)` and `register_profile(deadline=…)`, under any import name."""
    is_settings = ast.unparse(call.func).split(".")[-1] in {"settings", "register_profile"}
    return is_settings and any(keyword.arg == "deadline" for keyword in call.keywords)
