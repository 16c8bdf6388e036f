"""The commands that show answers: what they are called, their options, and their output."""
