"""The structs of objects, what controllers read from them, and what they write to them."""
