"""The process in its operating system: signals, watchdog, collector, version."""
