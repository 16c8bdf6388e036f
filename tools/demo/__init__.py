"""`berth demo`."""
