"""Requests to the API server: their origin, target, options, selectors and bodies."""
