"""The parameters of a handler whose arguments are the fields of the payload.

Promises: a payload that the function cannot be called with is refused when it is enqueued. The context is a
parameter that is annotated with a context class, under any name, or one named `ctx` or `context` without an
annotation. A parameter with another annotation is an argument. Never: calls the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from holdfast.core.check import shown
from holdfast.engine.blocking_context import BlockingContext
from holdfast.engine.context import Context
from holdfast.errors import BadConfig, InvalidInput

CONTEXT_NAMES: Final = ("ctx", "context")
CONTEXTS: Final = (Context, BlockingContext)
_TEXTS: Final = frozenset(
    f"{module}{kind.__name__}" for module in ("", "holdfast.") for kind in CONTEXTS
)
_NO_OBJECTS: Final = (str, bytes, int, float, bool, list, tuple, set)


class Parameters(msgspec.Struct, frozen=True):
    """What a function takes from the payload. The context is not part of it."""

    task_type: str
    signature: inspect.Signature
    """Without the context."""
    context_name: str | None
    names: frozenset[str] | None
    """None if the function takes any name (`**kwargs`)."""
    required: frozenset[str]


def parameters_of(
    task_type: str, function: Callable[..., Any], signature: inspect.Signature
) -> Parameters:
    """Reads the parameters. BadConfig for one that the payload cannot give."""
    context_name = _context_name(task_type, function, signature)
    others = [p for p in signature.parameters.values() if p.name != context_name]
    for parameter in others:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise BadConfig(
                f"task '{task_type}': parameter '{parameter.name}' cannot be given by name; "
                "use ordinary or keyword parameters"
            )
    named = [p for p in others if p.kind is not p.VAR_KEYWORD]
    return Parameters(
        task_type,
        signature.replace(parameters=others),
        context_name,
        frozenset(p.name for p in named) if len(named) == len(others) else None,
        frozenset(p.name for p in named if p.default is p.empty),
    )


def _context_name(
    task_type: str, function: Callable[..., Any], signature: inspect.Signature
) -> str | None:
    parameters = list(signature.parameters.values())
    found = [p.name for p in parameters if _is_context(function, p)]
    if len(found) > 1:
        raise BadConfig(
            f"task '{task_type}': parameters {', '.join(found)} are all the context; keep one of them"
        )
    return found[0] if found else None


def _is_context(function: Callable[..., Any], parameter: inspect.Parameter) -> bool:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return False
    annotation = _resolved(function, parameter.annotation)
    if annotation is parameter.empty or annotation is Any:
        return parameter.name in CONTEXT_NAMES
    if isinstance(annotation, str):
        # A name that does not exist at run time, e.g. of an import for type checkers only.
        is_context = bool(_TEXTS & {part.strip() for part in annotation.split("|")})
        return is_context or parameter.name in CONTEXT_NAMES
    return any(kind in CONTEXTS for kind in _kinds(annotation))


def _resolved(function: Callable[..., Any], annotation: Any) -> Any:
    """The annotation as an object. The text itself if it cannot be evaluated."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))
    except Exception:
        return annotation


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The parts of a union, or the annotation itself."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    is_union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if is_union else (annotation,)


def bind_payload(
    parameters: Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The payload that calls the function with these arguments later."""
    if parameters.context_name in kwargs:
        raise _context_given(parameters)
    try:
        bound = parameters.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise _cannot_call(parameters, str(error)) from None
    payload: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if parameters.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            payload.update(value)
        else:
            payload[name] = value
    return payload


def check_payload(parameters: Parameters, payload: object) -> None:
    """InvalidInput unless the function can be called with the fields of the payload. An object of another
    class is not checked: its fields are known when it is encoded."""
    if type(payload) is dict:
        keys = payload.keys()
        if (
            parameters.required <= keys
            and parameters.names is not None
            and keys <= parameters.names
        ):
            return
    elif payload is not None and isinstance(payload, _NO_OBJECTS):
        names = ", ".join(sorted(parameters.names or ())) or "any"
        raise _cannot_call(
            parameters, f"the payload is {shown(payload)}, not an object with the fields: {names}"
        )
    elif payload is not None and not isinstance(payload, Mapping):
        return
    bind_payload(parameters, (), {str(name): value for name, value in dict(payload or {}).items()})


def _cannot_call(parameters: Parameters, why: str) -> InvalidInput:
    return InvalidInput(f"task '{parameters.task_type}' cannot be called like this: {why}")


def _context_given(parameters: Parameters) -> InvalidInput:
    return _cannot_call(
        parameters,
        f"'{parameters.context_name}' is the context, which the worker passes; leave it out, or annotate the "
        "parameter with the class of your argument",
    )
