"""The verbs. Each function is one command: its signature defines the arguments, its docstring is the
help."""
