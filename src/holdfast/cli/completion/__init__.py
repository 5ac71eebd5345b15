"""Completion of commands, options and values in shells, generated from the tree of verbs."""
