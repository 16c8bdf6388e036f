"""The page: looks at a cluster and its scheduler in a browser, live and read only."""
