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
                case $command in queue) ;; *) break ;; esac
                ;;
        esac
    done
    case $command in
        '')
            choices=('version:Print the version' 'completion:Print the completion script of a shell: bash, zsh or fish' 'queue:Queues' 'help:Show the help of a command')
            options=('--url:The store; default: HOLDFAST_URL, holdfast.toml.' '--app:Use the store of the queue MODULE:QUEUE of your application.' '--gateway:Use this gateway, not the store; default: HOLDFAST_GATEWAY.' '--token:The token for the gateway; default: HOLDFAST_TOKEN.' '--output:How to print: wide cuts no column, name is ids only.' '-o:How to print: wide cuts no column, name is ids only.' '--color:When to use colours.' '--help:Show the help of the command.')
            case $previous in
                --output|-o) values=('table' 'wide' 'json' 'jsonl' 'name') ;;
                --color) values=('auto' 'always' 'never') ;;
            esac
            ;;
        'help')
            choices=('version:Print the version' 'completion:Print the completion script of a shell: bash, zsh or fish' 'queue:Queues' 'search' 'formatting' 'environment' 'exit-codes')
            ;;
        'queue')
            choices=('show:Show a queue')
            options=('--help:Show the help of the command.')
            ;;
        'version')
            options=('--help:Show the help of the command.')
            ;;
        'completion')
            choices=('bash' 'zsh' 'fish')
            options=('--help:Show the help of the command.')
            ;;
        'queue show')
            options=('--url:The store; default: HOLDFAST_URL, holdfast.toml.' '--app:Use the store of the queue MODULE:QUEUE of your application.' '--gateway:Use this gateway, not the store; default: HOLDFAST_GATEWAY.' '--token:The token for the gateway; default: HOLDFAST_TOKEN.' '--output:How to print: wide cuts no column, name is ids only.' '-o:How to print: wide cuts no column, name is ids only.' '--color:When to use colours.' '--help:Show the help of the command.')
            case $previous in
                --output|-o) values=('table' 'wide' 'json' 'jsonl' 'name') ;;
                --color) values=('auto' 'always' 'never') ;;
            esac
            ;;
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
