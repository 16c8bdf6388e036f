"""HTTP extenders: `calls` sends the requests, `wire` is extender/v1, `merging` combines answers."""
