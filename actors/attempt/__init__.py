"""How an attempt ends: what follows for the queue and the user, and what is logged."""
