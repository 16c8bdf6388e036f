"""The validation rules of the API server for each kind, beyond the types of fields."""
