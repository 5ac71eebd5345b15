"""Shortcuts: single statements that do what the core and the scripts would do, for what most tasks need.

Promises: what a shortcut leaves behind is what `core.decide` decides, row by row and event by event
(`tests/conformance/tasks/test_fast_paths.py`). What it cannot do it leaves to the general way, and changes
nothing.
The store's verbs try these first; no caller chooses. Never: a rule that the core does not have.
"""
