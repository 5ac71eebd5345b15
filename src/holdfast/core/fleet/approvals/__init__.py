"""Approvals: which one a job needs, votes, and break-glass."""
