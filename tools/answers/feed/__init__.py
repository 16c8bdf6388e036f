"""The feed: a cluster and its scheduler as rows and frames, and the stories of pods.

A feed_source gives what changed, rows makes rows of it, feed makes frames for everybody who looks,
and story tells about one pod. The page and `berth top` draw it.
"""
