"""Reads what the daemon is configured by: the file, and the packages with plugins."""
