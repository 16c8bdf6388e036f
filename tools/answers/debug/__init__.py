"""`berth debug`: asks a running scheduler, over HTTP, for its state."""
