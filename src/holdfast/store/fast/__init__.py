"""Shortcuts: single statements for the common cases of insert, claim and finish.

The verbs of the store try a shortcut first, then the general path (`scripts/`). Callers do not choose.
Promises: the rows and events of a shortcut are those that `core.decide` rules
(`tests/conformance/tasks/test_fast_paths.py`). A case that a shortcut does not cover changes nothing and is
left to the general path. Never: a rule that the core does not have.
"""
