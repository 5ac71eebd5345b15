"""The completion script of bash. It needs no package beside bash itself."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.cli.completion.commands import Command

HEAD = """\
# Completion of holdfast for bash. Load it in a session, or in ~/.bashrc:
#   source <(holdfast completion bash)
_holdfast() {
    local current previous command='' word skip='' index
    local words='' options='' flags='' values=''
    current=${COMP_WORDS[COMP_CWORD]}
    previous=${COMP_WORDS[COMP_CWORD-1]}
    # --status=q is three words: the option, = and the value.
    if [[ $current == '=' ]]; then
        current=''
    elif [[ $previous == '=' ]]; then
        previous=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
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
    if [[ -n $values ]]; then
        words=$values
    elif [[ $previous == -* && " $flags " != *" $previous "* ]]; then
        words=''
    elif [[ $current == -* ]]; then
        words=$options
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _holdfast holdfast
"""


def script(commands: Iterable[Command]) -> str:
    listed = list(commands)
    nouns = [each.path for each in listed if each.is_noun]
    lines = [HEAD.replace("NOUNS", "|".join(nouns) or "-").rstrip("\n")]
    lines += [line for command in listed for line in _case(command)]
    return "\n".join([*lines, TAIL])


def _case(command: Command) -> list[str]:
    words = [word for word, _ in command.words]
    options = [name for option in command.options for name in option.names]
    flags = [name for option in command.options if option.is_flag for name in option.names]
    lines = [f"        '{command.path}')", f"            words='{' '.join(words)}'"]
    lines.append(f"            options='{' '.join(options)}'")
    if flags:
        lines.append(f"            flags='{' '.join(flags)}'")
    chosen = [option for option in command.options if option.choices]
    if chosen:
        lines.append("            case $previous in")
        lines += [
            f"                {'|'.join(option.names)}) values='{' '.join(option.choices)}' ;;"
            for option in chosen
        ]
        lines.append("            esac")
    return [*lines, "            ;;"]
