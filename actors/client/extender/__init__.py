"""HTTP extenders: `wire` is extender/v1, `merging` combines their answers, `calls` asks them."""
