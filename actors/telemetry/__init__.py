"""What the process tells about itself: logs, measures, traces."""
