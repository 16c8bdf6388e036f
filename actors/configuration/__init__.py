"""Reads the configuration of the daemon: the file, and the packages with plugins."""
