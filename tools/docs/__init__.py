"""Makes the pictures, the recording and the site of the documentation."""
