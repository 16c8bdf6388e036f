"""Policies on writes: admission policies, webhooks, and Pod Security.

Admission policies and webhooks say which writes they match, and what they refuse or change; a
change may lead to a second round (reinvocation.py). Pod Security says what the pods of a namespace
may do, by its labels. There is no audit log, so the action Audit and the mode audit do nothing.
"""
