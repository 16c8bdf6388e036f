"""The commands that show answers: their names, options and output."""
