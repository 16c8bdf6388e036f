"""The operating system's process: signals, watchdog, collector, version."""
