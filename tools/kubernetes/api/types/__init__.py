"""What the API server serves: kinds, the types of their fields, defaults and conversions."""
