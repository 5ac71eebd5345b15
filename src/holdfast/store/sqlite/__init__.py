"""SQLite: nothing to install, one writer, the same promises."""
