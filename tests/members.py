"""What the generated pages say about a class: its public names, their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections import abc
from collections.abc import Callable
from itertools import chain, pairwise
from typing import get_args, get_origin

INNER = {
    "do_step",
    "step_ask",
    "request_cancel",
    "before_fork",
    "after_fork_in_parent",
    "start_over",
    "declared",
    "inserted",
    "is_suspended",
    "trace",
    "take",
    "source",
    "blocking_calls",
}
"""Called by the engine and at a fork only."""


def type_text(kind: object) -> str:
    """A type as it is written in code, without the names of modules."""
    origin, parts = get_origin(kind), get_args(kind)
    match origin:
        case None:
            return getattr(kind, "__name__", str(kind)).replace("NoneType", "None")
        case types.UnionType | typing.Union:
            return " | ".join(map(type_text, parts))
        case typing.Literal:
            return " | ".join(map(repr, parts))
        case abc.Callable:
            takes = ", ".join(map(type_text, parts[0]))
            return f"Callable[[{takes}], {type_text(parts[1])}]"
        case _:
            inner = ", ".join("..." if part is ... else type_text(part) for part in parts)
            return f"{type_text(origin)}[{inner}]"


def field_docs(cls: type) -> dict[str, str]:
    """The string below each field of a class, also below one that its constructor sets."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    bodies = [body.body]
    bodies += [
        each.body
        for each in body.body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    ]
    docs: dict[str, str] = {}
    for field, text in chain(*map(pairwise, bodies)):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name))
                | ast.Assign(targets=[ast.Attribute(attr=name)]),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                docs[name] = " ".join(doc.split())
    return docs


def public_names(cls: type, *, own_first: bool = False) -> list[str]:
    """The public names of a class and its bases in Holdfast, in the order of their definition: those of the
    bases first, or its own."""
    names: dict[str, None] = {}
    for base in cls.__mro__ if own_first else reversed(cls.__mro__):
        if base.__module__.startswith("holdfast."):
            names.update(dict.fromkeys(n for n in vars(base) if not n.startswith("_")))
    return [name for name in names if name not in INNER]


def member(cls: type, name: str) -> list[str]:
    attribute = inspect.getattr_static(cls, name)
    if isinstance(attribute, classmethod):
        attribute = attribute.__func__
    text = inspect.cleandoc(doc_of(cls, name))
    if callable(attribute):
        shown = signature_of(attribute).replace("(self, ", "(").replace("(self)", "()")
        shown = shown.replace("(cls, ", "(")
        shown = shown.replace("holdfast.", "")
        kind = "async " if is_async(attribute) else ""
        return ["```", f"{kind}{name}{shown}", "```", "", text]
    return [text] if is_attribute(attribute) else []


def doc_of(cls: type, name: str) -> str:
    """The docstring of a call or a property, or the string below a field."""
    if not isinstance(inspect.getattr_static(cls, name), types.MemberDescriptorType):
        return getattr(cls, name).__doc__ or ""
    found = [
        field_docs(base).get(name)
        for base in cls.__mro__
        if base.__module__.startswith("holdfast.")
    ]
    return next(filter(None, found), "")


def is_attribute(value: object) -> bool:
    """Whether it is a property or a field."""
    return isinstance(value, property | types.MemberDescriptorType)


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
