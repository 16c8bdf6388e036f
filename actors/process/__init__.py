"""What concerns the operating system's process: signals, watchdog, collector, version."""
