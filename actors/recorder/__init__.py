"""The recorder: writes events about objects and conditions of pods; no other actor waits for it."""
