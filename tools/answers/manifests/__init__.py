"""Reads manifests: the objects of files and folders, each with its place."""
