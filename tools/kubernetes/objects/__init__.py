"""The structs of objects, the properties that controllers read, and the writes that they decide
on.
"""
