"""The scheduling queue actor: the pending pods, and what wakes them."""
