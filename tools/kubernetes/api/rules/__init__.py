"""Validation rules of the API server beyond an object's types, by kind."""
