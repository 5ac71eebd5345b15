"""Orders, their rules, and what every order store can do."""
