"""The actor kernel: mailboxes, actors, supervision, the clock."""
