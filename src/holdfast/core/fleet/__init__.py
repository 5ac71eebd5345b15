"""The rules of the fleet, a folder for each noun: hosts, blocks, commands, jobs, approvals, rollout, agents,
webhooks.

Beside the folders: `model.py` (the rows), `rules.py` (what the settings say), `status.py` (how an execution
is shown) and `words.py` (a text as the words of a command).
"""
