"""The kit for tests of plugins; `berth.testing` has its names, described in docs/testing.md.

fake_handle   a handle that records what it is given, and answers as a test says
plugin_check  the contracts of a plugin, on random clusters
"""
