"""Makes the pictures and the recording of the documentation from a running demo."""
