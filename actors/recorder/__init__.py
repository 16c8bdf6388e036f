"""The recorder actor: events about objects and conditions of pods, written without holding anything
up.
"""
