"""Builders, test harnesses and virtual time."""
