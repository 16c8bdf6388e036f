"""The Job controller, and the rules by which it judges pods that have ended."""
