"""The server actor: health, metrics and the configuration, over HTTP."""
