"""The parameters of a handler whose arguments are the fields of the payload.

Promises: a payload that the function cannot be called with is refused when it is enqueued. The context is a
parameter that is annotated with a context class, under any name, or one named `ctx` or `context` without an
annotation. A parameter with another annotation is an argument. Never: calls the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

import msgspec

from holdfast.core.check import shown
from holdfast.core.codec import plain
from holdfast.core.submit import encode_payloads
from holdfast.core.task import Task
from holdfast.engine.arguments import Arguments, ArgumentsRefused, resolved
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
    arguments: Arguments
    """The arguments by their annotations."""


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
    without = signature.replace(parameters=others)
    return Parameters(
        task_type,
        without,
        context_name,
        frozenset(p.name for p in named) if len(named) == len(others) else None,
        frozenset(p.name for p in named if p.default is p.empty),
        Arguments(task_type, function, without),
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
    annotation = resolved(function, parameter.annotation)
    if annotation is parameter.empty or annotation is Any:
        return parameter.name in CONTEXT_NAMES
    if isinstance(annotation, str):
        # A name that does not exist at run time, e.g. of an import for type checkers only.
        is_context = bool(_TEXTS & {part.strip() for part in annotation.split("|")})
        return is_context or parameter.name in CONTEXT_NAMES
    return any(kind in CONTEXTS for kind in _kinds(annotation))


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


def checked_payload(parameters: Parameters, payload: object) -> object:
    """The payload to store. InvalidInput unless the function can be called with its fields."""
    if type(payload) is dict:
        keys = payload.keys()
        if (
            parameters.required <= keys
            and parameters.names is not None
            and keys <= parameters.names
        ):
            return parameters.arguments.written(payload)
    elif payload is not None and isinstance(payload, _NO_OBJECTS):
        names = ", ".join(sorted(parameters.names or ())) or "any"
        raise _cannot_call(
            parameters, f"the payload is {shown(payload)}, not an object with the fields: {names}"
        )
    fields = _fields(payload)
    if fields is None:
        return payload  # The encoder refuses it.
    return parameters.arguments.written(bind_payload(parameters, (), fields)) or payload


def checked_payloads(parameters: Parameters, payloads: Sequence[object]) -> Sequence[object]:
    """`checked_payload` of each, at once where all are plain."""
    if parameters.names is not None and set(map(type, payloads)) == {dict}:
        plain_ones = cast("Sequence[dict[str, Any]]", payloads)
        keys = [frozenset(shape) for shape in set(map(tuple, plain_ones))]
        if all(
            parameters.required <= names and names <= parameters.names for names in keys
        ) and parameters.arguments.are_stored_as_given(plain_ones):
            return payloads
    return [checked_payload(parameters, payload) for payload in payloads]


def payload_texts(
    parameters: Parameters | None, payloads: Sequence[object], start: int, stop: int
) -> list[str]:
    """Checks the payloads from one place to another, and writes them as JSON."""
    part = payloads[start:stop]
    return encode_payloads(part if parameters is None else checked_payloads(parameters, part))


def _fields(payload: object) -> dict[str, Any] | None:
    """The fields of a payload that is a mapping, None, or an object with fields."""
    if payload is None or isinstance(payload, Mapping):
        return {str(name): value for name, value in dict(payload or {}).items()}
    try:
        made = msgspec.to_builtins(payload, str_keys=True, enc_hook=plain)
    except Exception:
        return None
    return made if isinstance(made, dict) else None


def call_with_arguments(
    function: Callable[..., Any], parameters: Parameters, task: Task, context: object
) -> Any:
    """Calls the function with the fields of the payload. ArgumentsRefused if it does not take them."""
    arguments = dict(task.payload or {})
    if parameters.arguments.reads or parameters.arguments.reads is None:
        parameters.arguments.read(arguments)
    if parameters.context_name is not None:
        arguments[parameters.context_name] = context
    try:
        return function(**arguments)
    except TypeError:
        _check_call(parameters, task.payload)
        raise


def _check_call(parameters: Parameters, payload: Any) -> None:
    """ArgumentsRefused if the function cannot be called with the fields of a stored payload."""
    try:
        bind_payload(parameters, (), dict(payload or {}))
    except InvalidInput as error:
        raise ArgumentsRefused(f"{error}; edit the payload and replay the task") from None


def _cannot_call(parameters: Parameters, why: str) -> InvalidInput:
    return InvalidInput(f"task '{parameters.task_type}' cannot be called like this: {why}")


def _context_given(parameters: Parameters) -> InvalidInput:
    return _cannot_call(
        parameters,
        f"'{parameters.context_name}' is the context, which the worker passes; leave it out, or annotate the "
        "parameter with the class of your argument",
    )
