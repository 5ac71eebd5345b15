"""Nodes with an identity: registration, heartbeat, claims of tasks by name, what a claim reports."""
