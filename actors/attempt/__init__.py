"""The ends of attempts: their consequences for the queue and the user, and their log lines."""
