"""The Job controller, and the rules about pods that have ended."""
