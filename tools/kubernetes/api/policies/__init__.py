"""Policies on writes: validating admission policies, and Pod Security.

Policies say which writes they match, and what they refuse. Pod Security says what the pods of a
namespace may do, by its labels. There is no audit log, so the action Audit and the mode audit do
nothing.
"""
