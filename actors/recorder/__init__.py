"""The recorder actor: events."""
