"""Validating admission policies: which writes they match, and what they refuse.

There is no audit log, so the action Audit does nothing.
"""
