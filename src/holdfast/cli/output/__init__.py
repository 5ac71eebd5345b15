"""How answers look: tables for people, JSON for programs, the same field names in both."""
