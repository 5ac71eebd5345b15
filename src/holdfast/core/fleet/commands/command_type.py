"""Command types: what jobs may run, and within which bounds. The settings define them, users name them.

The words of a type's `argv` are text, or a place: `{command}` for the words of the job's command, `{args.x}`
for an argument. A place is a whole word, so no value changes the words around it, and no shell reads them.
Promises: a definition that passed the checks gives an argv for every job that passed those of `jobs/spec.py`.
Values of a job that start with `-` are refused unless the type allows options, so a job cannot add options to
the program of the type. Only the kind `shell` runs a shell.
Never: I/O. The agent has its own list of the types that it accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.check import check_number, check_positive, check_whole, shown
from holdfast.core.fleet.hosts.selector_parse import glob_pattern
from holdfast.errors import BadConfig

TYPE_CHARS_MAX: Final = 64
TYPES_MAX: Final = 1_000
TEMPLATE_WORDS_MAX: Final = 64
ENV_NAMES_MAX: Final = 100
TIMEOUT_SECONDS_MAX: Final = 86_400.0
GRACE_SECONDS_MAX: Final = 600.0
OUTPUT_BYTES_MAX: Final = 67_108_864
HOSTS_MAX: Final = 50_000
"""Hosts of one job."""
SETTINGS: Final = "fleet.command_types"
APPROVAL_NONE: Final = "none"
BUILTINS: Final = ("ping", "facts", "drain", "update")
COMMAND: Final = "{command}"
TYPE_NAME: Final = re.compile(rf"[a-z][a-z0-9_.-]{{0,{TYPE_CHARS_MAX - 1}}}")
ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ENV_GLOB: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,126}\*?")
_ARG: Final = re.compile(r"\{args\.([A-Za-z_][A-Za-z0-9_]*)\}")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class CommandKind(StrEnum):
    """What the agent does with a command."""

    NOOP = "noop"
    """Nothing: it reports success."""
    ARGV = "argv"
    SHELL = "shell"
    BUILTIN = "builtin"
    """Something that the agent does itself: see `BUILTINS`."""


class OnRestart(StrEnum):
    """What happens to a run whose outcome the agent lost, e.g. by a reboot."""

    REPORT_UNKNOWN = "report_unknown"
    RERUN = "rerun"
    """Again. Idempotent commands only."""
    PROBE = "probe"
    """The exit code of the type's `probe` decides."""


class CommandType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition of `[fleet.command_types.NAME]`."""

    name: str = ""
    kind: CommandKind = CommandKind.ARGV
    argv: tuple[str, ...] = ()
    """The words, of the kind `argv`."""
    builtin: str = ""
    """What to do, of the kind `builtin`."""
    options: bool = False
    """Whether words of the job's command and arguments may start with `-`."""
    timeout_seconds: float | None = None
    """None: `fleet.exec_timeout_seconds`."""
    grace_seconds: float | None = None
    """From TERM to KILL of the process group. None: `fleet.grace_seconds`."""
    output_bytes: int = 1_048_576
    idempotent: bool = False
    on_restart: OnRestart = OnRestart.REPORT_UNKNOWN
    probe: tuple[str, ...] = ()
    """The words of the command that tells whether a lost run did its work: exit code 0 is success."""
    run_as: str | None = None
    """The user that the command runs as. None: the user of the agent."""
    env: tuple[str, ...] = ()
    """Names of variables that a job may set. A name may end in `*`."""
    approval: str | None = None
    """The rule of approval, or `none`. None: the rules decide by their order."""
    approval_above: int = 0
    """A job of more hosts needs an approval where no rule matches. A smaller one needs none."""
    max_hosts: int | None = None
    ok_codes: tuple[int, ...] = (0,)
    """Exit codes that are a success."""

    @property
    def args(self) -> frozenset[str]:
        """The arguments that a job must give."""
        return frozenset(_arg_names((*self.argv, *self.probe)))

    @property
    def takes_command(self) -> bool:
        """Whether a job must give a command."""
        return self.kind is CommandKind.SHELL or COMMAND in (*self.argv, *self.probe)

    def allows_env(self, name: str) -> bool:
        return any(glob_pattern(each).fullmatch(name) is not None for each in self.env)


def _shipped(*types: CommandType) -> dict[str, CommandType]:
    return {each.name: each for each in types}


SHIPPED: Final = _shipped(
    CommandType(name="noop", kind=CommandKind.NOOP, idempotent=True, approval=APPROVAL_NONE),
    CommandType(
        name="ping",
        kind=CommandKind.BUILTIN,
        builtin="ping",
        idempotent=True,
        on_restart=OnRestart.RERUN,
        approval=APPROVAL_NONE,
    ),
    CommandType(
        name="facts",
        kind=CommandKind.BUILTIN,
        builtin="facts",
        idempotent=True,
        on_restart=OnRestart.RERUN,
        approval=APPROVAL_NONE,
    ),
    CommandType(name="exec", argv=(COMMAND,), options=True, approval_above=50),
    CommandType(
        name="restart",
        argv=("systemctl", "restart", COMMAND),
        idempotent=True,
        approval_above=50,
    ),
    CommandType(name="shell", kind=CommandKind.SHELL),
)
"""The types that are there without settings. A definition of the same name takes the place of one."""


def command_types(settings: Mapping[str, object] | None = None) -> dict[str, CommandType]:
    """The shipped types and those of `[fleet.command_types]`. BadConfig names the key that is wrong."""
    defined = settings or {}
    if len(defined) > TYPES_MAX:
        raise BadConfig(f"{SETTINGS} has {len(defined)} types: define at most {TYPES_MAX}")
    return SHIPPED | {name: _defined(name, value) for name, value in defined.items()}


def _defined(name: str, value: object) -> CommandType:
    if TYPE_NAME.fullmatch(name) is None:
        raise BadConfig(
            f"{SETTINGS} has the name {shown(name)}: use 1 to {TYPE_CHARS_MAX} of a-z, 0-9, '.', '_' and "
            "'-', a letter first"
        )
    where = f"{SETTINGS}.{name}"
    if not isinstance(value, Mapping):
        raise BadConfig(f"{where} is {shown(value)}: it must be a table")
    if "name" in value:
        raise BadConfig(f"{where}.name is not a key: the name is that of the table")
    return check_type(_decoded(where, dict(value), name), where=where)


def _decoded(where: str, value: dict[str, Any], name: str) -> CommandType:
    if unknown := sorted(set(value) - set(CommandType.__struct_fields__)):
        names = ", ".join(each for each in CommandType.__struct_fields__ if each != "name")
        raise BadConfig(f"{where}.{unknown[0]} is not known: use {names}")
    try:
        return replace(msgspec.convert(value, CommandType), name=name)
    except msgspec.ValidationError as error:
        raise BadConfig(f"{where} is wrong: {error}") from None


def check_type(type: CommandType, *, where: str = "") -> CommandType:
    """The type. BadConfig names the key that is wrong."""
    where = where or f"{SETTINGS}.{type.name}"
    _check_kind(type, where)
    if type.timeout_seconds is not None:
        check_positive(
            f"{where}.timeout_seconds",
            type.timeout_seconds,
            most=TIMEOUT_SECONDS_MAX,
            wrong=BadConfig,
        )
    if type.grace_seconds is not None:
        check_number(
            f"{where}.grace_seconds", type.grace_seconds, most=GRACE_SECONDS_MAX, wrong=BadConfig
        )
    check_whole(f"{where}.output_bytes", type.output_bytes, least=0, most=OUTPUT_BYTES_MAX,
                wrong=BadConfig)  # fmt: skip
    check_whole(
        f"{where}.approval_above", type.approval_above, least=0, most=HOSTS_MAX, wrong=BadConfig
    )
    if type.max_hosts is not None:
        check_whole(f"{where}.max_hosts", type.max_hosts, least=1, most=HOSTS_MAX, wrong=BadConfig)
    if type.on_restart is OnRestart.RERUN and not type.idempotent:
        raise BadConfig(f"{where}.on_restart is 'rerun': it needs idempotent = true")
    if type.on_restart is OnRestart.PROBE and not type.probe:
        raise BadConfig(f"{where}.on_restart is 'probe': it needs a probe")
    if type.run_as is not None and _USER.fullmatch(type.run_as) is None:
        raise BadConfig(f"{where}.run_as is {shown(type.run_as)}: give the name of a user")
    if not type.ok_codes or not all(0 <= code <= 255 for code in type.ok_codes):
        raise BadConfig(f"{where}.ok_codes must be exit codes from 0 to 255")
    wrong = [name for name in type.env if _ENV_GLOB.fullmatch(name) is None]
    if wrong or len(type.env) > ENV_NAMES_MAX:
        raise BadConfig(
            f"{where}.env must be at most {ENV_NAMES_MAX} names of variables, each with an optional * at "
            f"its end, not {shown(wrong[:1] or len(type.env))}"
        )
    return type


def _check_kind(type: CommandType, where: str) -> None:
    if (type.kind is CommandKind.ARGV) != bool(type.argv):
        raise BadConfig(f"{where}.argv belongs to the kind 'argv', which needs it")
    if (type.kind is CommandKind.BUILTIN) != bool(type.builtin):
        raise BadConfig(f"{where}.builtin belongs to the kind 'builtin', which needs it")
    if type.builtin and type.builtin not in BUILTINS:
        raise BadConfig(
            f"{where}.builtin is {shown(type.builtin)}: use one of {', '.join(BUILTINS)}"
        )
    if type.probe and type.kind not in (CommandKind.ARGV, CommandKind.SHELL):
        raise BadConfig(f"{where}.probe belongs to the kinds 'argv' and 'shell'")
    for key, words in (("argv", type.argv), ("probe", type.probe)):
        _check_words(f"{where}.{key}", words)
    if type.kind is CommandKind.SHELL and COMMAND in type.probe:
        raise BadConfig(
            f"{where}.probe has {COMMAND}: the command of the kind 'shell' is no list of words"
        )


def _check_words(where: str, words: Sequence[str]) -> None:
    if len(words) > TEMPLATE_WORDS_MAX:
        raise BadConfig(f"{where} has {len(words)} words: give at most {TEMPLATE_WORDS_MAX}")
    for word in words:
        is_place = word == COMMAND or _ARG.fullmatch(word) is not None
        if not is_place and (COMMAND in word or "{args." in word):
            raise BadConfig(
                f"{where} has the word {shown(word)}: {COMMAND} and {{args.NAME}} are whole words"
            )
        if "\0" in word:
            raise BadConfig(f"{where} has the word {shown(word)} with a NUL character")
    if words and not words[0]:
        raise BadConfig(f"{where} has an empty first word: give the program")


def _arg_names(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if (match := _ARG.fullmatch(word)) is not None:
            yield match[1]


def filled(
    template: Sequence[str], command: Sequence[str], args: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The words of a template with the words of a job in its places."""
    words: list[str] = []
    for word in template:
        match = _ARG.fullmatch(word)
        if match is not None:
            words += args[match[1]]
        elif word == COMMAND:
            words += command
        else:
            words.append(word)
    return tuple(words)
