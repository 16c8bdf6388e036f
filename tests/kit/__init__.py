"""Builders, harness and virtual time for the tests."""
