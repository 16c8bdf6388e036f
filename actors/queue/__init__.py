"""The scheduling queue actor: the pending pods, and the events that wake them."""
