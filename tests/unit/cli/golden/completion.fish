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
                    case queue
                    case '*'
                        break
                end
        end
    end
    test "$command" = "$argv[1]"
end
complete -c holdfast -n '__holdfast_at \'\'' -f -a 'version' -d 'Print the version'
complete -c holdfast -n '__holdfast_at \'\'' -f -a 'completion' -d 'Print the completion script of a shell: bash, zsh or fish'
complete -c holdfast -n '__holdfast_at \'\'' -f -a 'queue' -d 'Queues'
complete -c holdfast -n '__holdfast_at \'\'' -f -a 'help' -d 'Show the help of a command'
complete -c holdfast -n '__holdfast_at \'\'' -l url -r -d 'The store; default: HOLDFAST_URL, holdfast.toml.'
complete -c holdfast -n '__holdfast_at \'\'' -l app -r -d 'Use the store of the queue MODULE:QUEUE of your application.'
complete -c holdfast -n '__holdfast_at \'\'' -l gateway -r -d 'Use this gateway, not the store; default: HOLDFAST_GATEWAY.'
complete -c holdfast -n '__holdfast_at \'\'' -l token -r -d 'The token for the gateway; default: HOLDFAST_TOKEN.'
complete -c holdfast -n '__holdfast_at \'\'' -l output -s o -x -a 'table wide json jsonl name' -d 'How to print: wide cuts no column, name is ids only.'
complete -c holdfast -n '__holdfast_at \'\'' -l color -x -a 'auto always never' -d 'When to use colours.'
complete -c holdfast -n '__holdfast_at \'\'' -l help -d 'Show the help of the command.'
complete -c holdfast -n '__holdfast_at \'help\'' -f -a 'version' -d 'Print the version'
complete -c holdfast -n '__holdfast_at \'help\'' -f -a 'completion' -d 'Print the completion script of a shell: bash, zsh or fish'
complete -c holdfast -n '__holdfast_at \'help\'' -f -a 'queue' -d 'Queues'
complete -c holdfast -n '__holdfast_at \'help\'' -f -a 'search' -d ''
complete -c holdfast -n '__holdfast_at \'help\'' -f -a 'formatting' -d ''
complete -c holdfast -n '__holdfast_at \'help\'' -f -a 'environment' -d ''
complete -c holdfast -n '__holdfast_at \'help\'' -f -a 'exit-codes' -d ''
complete -c holdfast -n '__holdfast_at \'queue\'' -f -a 'show' -d 'Show a queue'
complete -c holdfast -n '__holdfast_at \'queue\'' -l help -d 'Show the help of the command.'
complete -c holdfast -n '__holdfast_at \'version\'' -l help -d 'Show the help of the command.'
complete -c holdfast -n '__holdfast_at \'completion\'' -f -a 'bash' -d ''
complete -c holdfast -n '__holdfast_at \'completion\'' -f -a 'zsh' -d ''
complete -c holdfast -n '__holdfast_at \'completion\'' -f -a 'fish' -d ''
complete -c holdfast -n '__holdfast_at \'completion\'' -l help -d 'Show the help of the command.'
complete -c holdfast -n '__holdfast_at \'queue show\'' -l url -r -d 'The store; default: HOLDFAST_URL, holdfast.toml.'
complete -c holdfast -n '__holdfast_at \'queue show\'' -l app -r -d 'Use the store of the queue MODULE:QUEUE of your application.'
complete -c holdfast -n '__holdfast_at \'queue show\'' -l gateway -r -d 'Use this gateway, not the store; default: HOLDFAST_GATEWAY.'
complete -c holdfast -n '__holdfast_at \'queue show\'' -l token -r -d 'The token for the gateway; default: HOLDFAST_TOKEN.'
complete -c holdfast -n '__holdfast_at \'queue show\'' -l output -s o -x -a 'table wide json jsonl name' -d 'How to print: wide cuts no column, name is ids only.'
complete -c holdfast -n '__holdfast_at \'queue show\'' -l color -x -a 'auto always never' -d 'When to use colours.'
complete -c holdfast -n '__holdfast_at \'queue show\'' -l help -d 'Show the help of the command.'
