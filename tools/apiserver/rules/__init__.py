"""What the API server demands of an object beyond its shape, by kind."""
