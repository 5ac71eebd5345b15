"""The completion script of fish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.cli.completion.commands import Command
from holdfast.cli.signature import Option

HEAD = """\
# Completion of holdfast for fish. Load it in a session, or write it to
# ~/.config/fish/completions/holdfast.fish:
#   holdfast completion fish | source
function __holdfast_at --description 'Whether the words so far name this command'
    set -l command
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
            continue
        end
        switch $word
            case --url --app --gateway --token -o --output --color
                set skip 1
            case '-*'
            case '*'
                set command (string trim "$command $word")
                switch $command
                    case NOUNS
                    case '*'
                        break
                end
        end
    end
    test "$command" = "$argv[1]"
end
"""


def script(commands: Iterable[Command]) -> str:
    listed = list(commands)
    nouns = [each.path for each in listed if each.is_noun]
    lines = [HEAD.replace("NOUNS", " ".join(nouns) or "-").rstrip("\n")]
    return "\n".join([*lines, *(line for each in listed for line in _lines(each))]) + "\n"


def _lines(command: Command) -> Iterator[str]:
    where = f"complete -c holdfast -n {_quoted(f'__holdfast_at {_quoted(command.path)}')}"
    for word, text in command.words:
        yield f"{where} -f -a {_quoted(word)} -d {_quoted(text)}"
    for option in command.options:
        yield f"{where} {_option(option)} -d {_quoted(option.help)}"


def _option(option: Option) -> str:
    names = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    ]
    if option.choices:
        names.append(f"-x -a {_quoted(' '.join(option.choices))}")
    elif not option.is_flag:
        names.append("-r")
    return " ".join(names)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
