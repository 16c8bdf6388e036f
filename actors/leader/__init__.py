"""The leader-election actor."""
