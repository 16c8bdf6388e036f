"""The page: a live, read-only view of a cluster and its scheduler in a browser."""
