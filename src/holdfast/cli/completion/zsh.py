"""The completion script of zsh."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.cli.completion.commands import Command
from holdfast.cli.signature import Option

HEAD = """\
#compdef holdfast
# Completion of holdfast for zsh. Load it in a session, or in ~/.zshrc after compinit:
#   source <(holdfast completion zsh)
_holdfast() {
    local command='' word skip='' previous=${words[CURRENT-1]}
    local -a choices options values
    [[ ${words[CURRENT]} == --*=* ]] && previous=${words[CURRENT]%%=*}
    for word in ${words[2,CURRENT-1]}; do
        if [[ -n $skip ]]; then skip=''; continue; fi
        case $word in
            --url|--app|--gateway|--token|-o|--output|--color) skip=1 ;;
            -*) ;;
            *)
                if [[ -z $command ]]; then command=$word; else command="$command $word"; fi
                case $command in NOUNS) ;; *) break ;; esac
                ;;
        esac
    done
    case $command in
"""
TAIL = """\
    esac
    if (( ${#values} )); then
        compset -P '--*='
        _describe 'value' values
    elif [[ ${words[CURRENT]} == -* ]]; then
        _describe -o 'option' options
    elif (( ${#choices} )); then
        _describe 'command' choices
    else
        _files
    fi
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
"""


def script(commands: Iterable[Command]) -> str:
    listed = list(commands)
    nouns = [each.path for each in listed if each.is_noun]
    lines = [HEAD.replace("NOUNS", "|".join(nouns) or "-").rstrip("\n")]
    lines += [line for command in listed for line in _case(command)]
    return "\n".join([*lines, TAIL])


def _case(command: Command) -> list[str]:
    lines = [f"        {_quoted(command.path)})"]
    if command.words:
        words = " ".join(_described(word, text) for word, text in command.words)
        lines.append(f"            choices=({words})")
    if command.options:
        pairs = [(name, option.help) for option in command.options for name in option.names]
        lines.append(f"            options=({' '.join(_described(*pair) for pair in pairs)})")
    chosen = [option for option in command.options if option.choices]
    if chosen:
        lines.append("            case $previous in")
        lines += [_values(option) for option in chosen]
        lines.append("            esac")
    return [*lines, "            ;;"]


def _values(option: Option) -> str:
    values = " ".join(_quoted(choice) for choice in option.choices)
    return f"                {'|'.join(option.names)}) values=({values}) ;;"


def _described(word: str, text: str) -> str:
    word = word.replace(":", "\\:")
    return _quoted(f"{word}:{text}" if text else word)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
