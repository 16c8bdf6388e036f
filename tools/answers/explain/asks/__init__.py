"""What the nodes lack for a pod, in words: a file for each kind of reason."""
