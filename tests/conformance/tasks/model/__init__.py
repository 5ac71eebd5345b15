"""Random verbs against both stores and a simple model at once: three that must always agree."""
