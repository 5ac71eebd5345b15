"""The Control Center in a real browser: what a person waits for, and what a tab costs."""
