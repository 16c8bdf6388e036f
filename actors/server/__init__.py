"""The server: health, metrics, the configuration and debug pages, over HTTP."""
