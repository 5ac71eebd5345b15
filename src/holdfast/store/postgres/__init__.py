"""PostgreSQL: many processes, one truth."""
