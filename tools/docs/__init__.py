"""Makes the pictures, the recording and the site of the documentation.

examples/ has plugins to copy from, which import berth.plugin alone.
"""
