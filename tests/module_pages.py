"""The generated pages of values and of modules: docs/reference/values.md, docs/reference/python_*.md.

`python -m tests.pages` writes them with the others.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Callable
from types import BuiltinFunctionType

from holdfast.core.task import Failure
from holdfast.queue.dead_letters import DeadGroup
from holdfast.queue.stats import Stats
from tests import members, pages
from tests.public import PUBLIC

RETURNED = (Stats, DeadGroup, Failure)
"""Classes that calls of a queue return. They are not imported by name."""
MODULES = ("testing", "kv", "locks", "idempotency", "retry", "orders", "metrics", "clock")
TWINS = [
    "AsyncRedisKV",
    "AsyncTransaction",
    "MemoryKV",
    "BlockingLedger",
    "BlockingLocks",
    "BlockingLease",
    "BlockingEfficiencyLocks",
    "AsyncRedlock",
    "AsyncOrderStore",
    "InMemoryOrderStore",
    "DurableOrderStore",
    "SqlOrderStore",
    "SqlOrders",
]
"""Classes with the calls of another one on the same page: only their constructors are shown."""
ADDRESS = re.compile(r"<(?:function )?([\w.]+)(?: object)? at 0x[0-9a-f]+>")


def values_page() -> str:
    """What calls take and return: every public class of `holdfast` that is not on the page of the queue."""
    lines = [
        "# Values of the queue in Python",
        "",
        "Generated from the docstrings by `python -m tests.pages`: what the calls of the",
        "[queue](queue.md) take and return, and what handlers return and raise. Names are imported from",
        "`holdfast`. Times are epoch seconds. Errors are in [errors.md](errors.md).",
    ]
    module = importlib.import_module("holdfast")
    own = [getattr(module, name) for name in PUBLIC["holdfast"] if name not in pages.PRODUCT]
    for cls in sorted([*own, *RETURNED], key=lambda cls: cls.__name__):
        lines += ["", f"## `{cls.__name__}`", "", *described(cls, "###")]
    return "\n".join([*lines, ""])


def module_page(name: str) -> str:
    """Every public name of a module that is useful without a queue."""
    module = importlib.import_module(f"holdfast.{name}")
    lines = [
        f"# `holdfast.{name}` in Python",
        "",
        "Generated from the docstrings by `python -m tests.pages`: the public names of the module. Metrics",
        "(`FAMILIES`) are in [metrics.md](metrics.md), errors in [errors.md](errors.md).",
        "",
        inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0],
    ]
    for public in PUBLIC[f"holdfast.{name}"]:
        value = getattr(module, public)
        if callable(value):
            lines += ["", f"## `{public}`", "", *described(value, "###")]
    return "\n".join([*lines, ""])


def written() -> dict[str, str]:
    """All of them, by the name of the file."""
    return {"values.md": values_page()} | {f"python_{n}.md": module_page(n) for n in MODULES}


def described(value: Callable[..., object], heading: str) -> list[str]:
    """A function with its signature, or a class with its fields and calls."""
    text = inspect.cleandoc(value.__doc__ or "")
    if not isinstance(value, type):
        return ["```", signed(value), "```", "", text]
    lines = [text, ""] if text else []
    if issubclass(value, enum.Enum):
        return [*lines, ", ".join(f"`{member.name}` ({member.value!r})" for member in value)]
    fields = fields_of(value)
    if fields:
        lines += ["| field | type | meaning |", "|---|---|---|", *fields]
    elif "__init__" in vars(value):
        lines += ["```", signed(value), "```"]
    for name in members.public_names(value) if value.__name__ not in TWINS else ():
        if name not in annotated(value) and not is_builtin(value, name):
            found = [ADDRESS.sub(r"\1", line) for line in members.member(value, name)]
            lines += ["", f"{heading} `{name}`", "", *found] if found else []
    return lines


def is_builtin(cls: type, name: str) -> bool:
    """Whether it is a function of Python itself, such as the time of a clock, which has no signature."""
    value = inspect.getattr_static(cls, name)
    value = getattr(value, "__func__", value)
    return isinstance(getattr(value, "func", value), BuiltinFunctionType)


def signed(value: Callable[..., object]) -> str:
    shown = members.signature_of(value).replace("holdfast.", "")
    kind = "async " if members.is_async(value) else ""
    return ADDRESS.sub(r"\1", f"{kind}{value.__name__}{shown}").replace(" -> None", "")


def annotated(cls: type) -> dict[str, str]:
    """The annotations of the fields of a class and its bases, as they are written."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("holdfast."):
            own = vars(base).get("__annotations__", {})
            found |= {
                name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in own.items()
            }
    return found


def fields_of(cls: type) -> list[str]:
    """The rows of the fields of a struct, a dataclass or a named tuple."""
    names: tuple[str, ...] = getattr(cls, "__struct_fields__", ())
    names = (
        names
        or tuple(getattr(cls, "_fields", ()))
        or tuple(getattr(cls, "__dataclass_fields__", ()))
    )
    kinds, meanings = annotated(cls), members.field_docs(cls)
    return [
        f"| `{name}` | `{escaped(kinds.get(name, ''))}` | {meanings.get(name, '')} |"
        for name in names
        if not name.startswith("_")
    ]


def escaped(text: str) -> str:
    return text.replace("|", "\\|")
