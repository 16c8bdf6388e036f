"""The reasons of answers for programs: a code each, with its fields."""
