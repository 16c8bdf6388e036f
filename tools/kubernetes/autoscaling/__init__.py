"""The horizontal pod autoscaler: its objects, its arithmetic, its limits and its decisions."""
