"""The scheduling queue actor."""
