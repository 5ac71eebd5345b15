"""Webhooks: signatures, addresses, deliveries."""
