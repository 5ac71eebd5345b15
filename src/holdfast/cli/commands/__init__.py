"""The verbs. Each function is one command: its signature is its arguments, its docstring its help."""
