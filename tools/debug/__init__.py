"""What a running scheduler knows, asked over HTTP."""
