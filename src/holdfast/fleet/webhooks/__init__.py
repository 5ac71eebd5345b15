"""Webhooks, in and out: use cases, transactions, the sender."""
