"""Output of commands: tables for people, JSON for programs, with the same field names."""
