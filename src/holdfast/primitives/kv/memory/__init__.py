"""The memory twin: Redis' commands and their semantics in a process, with an injected clock."""
