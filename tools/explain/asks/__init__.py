"""What the nodes lack for a pod, in words, and what would help: a file for each kind of reason."""
