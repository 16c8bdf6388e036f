"""Stages: the lifecycle of pods and nodes as data, in the form of KWOK's Stage objects."""
