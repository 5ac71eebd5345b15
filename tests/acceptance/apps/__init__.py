"""Applications that the tests run as separate processes, and helpers to control them."""
