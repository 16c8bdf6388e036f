"""The rules of the house that no linter knows: what is pure, where a test belongs, what a wheel
has in it.
"""
