"""The Kubernetes API client: kubeconfig, REST, list and watch, retries, rate limit, extenders.

Every socket asks for a sign of life from its peer after 15 idle seconds, and gives up after 30
seconds without one. A proxy that keeps the connection and forwards nothing is noticed by its
silence: if the server of a watch has sent bookmarks before, which API servers do about once a
minute, the watch begins again from the last version after 150 seconds without a byte. A page of a
list may take two minutes, twice as long as an API server takes for an answer; after that, smaller
pages are asked for.

A list is the beginning of its watch: the server streams all objects and then a bookmark, as the
gate `WatchListClient` says. If the server refuses that, or the stream ends before the bookmark, or
brings no object and no end for five seconds, the objects are listed page by page. A server that
cannot stream lists is not asked for it again, for any kind. client-go waits for the end of such a
stream. All kinds are listed side by side. A watch that a busy server closes after it brought
changes is opened again at once, four times a second at most; one that brought nothing new, after a
delay that doubles. A list that is older than what was seen is taken only at the fourth time. A line
of a watch may have 16 MiB, another answer 256 MiB.

Writes wait for one of 100 connections in the order in which they came. Plugins' requests, events
and the lease have connections of their own, so that a slow admission webhook for claims holds up no
binding. 65 seconds are the limit for a new connection with its handshakes, and 65 for the answer,
counted from the moment in which the request was sent. No write is sent again after a failure,
unless the server asks for it.
"""
