"""The ends of attempts: what follows for the queue and the user, and what is logged."""
