"""The order store on SQLite and PostgreSQL."""
