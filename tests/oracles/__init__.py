"""What stays by hand is compared with independent programs: libraries that the project does not use
otherwise. They are needed by these tests alone.
"""
