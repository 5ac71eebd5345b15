"""The store on SQLite, which has one writer."""
