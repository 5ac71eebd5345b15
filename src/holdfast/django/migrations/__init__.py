"""Migrations of the tables of the application."""
