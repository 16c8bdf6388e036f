"""Streams into hollow containers: logs, exec, attach and port-forward.

    pod_streams.py      answers the requests for them: the room's one entrance
    pod_logs.py         a container's log, and what is added to it
    remote_commands.py  exec and attach: a command's streams, whatever the protocol
    container_ends.py   the end of a container whose own script has ended
    port_forwards.py    port-forward: bytes between a client and a port of this machine
    command_streams.py  what the protocols give a command; until_first.py ends them together
    script_files.py     reads what containers say and do from a file
    websocket.py        WebSocket messages and the handshake, without I/O
    web_channels.py     Kubernetes' channels in WebSocket messages
    spdy.py             the frames of SPDY/3.1 that Kubernetes uses, without I/O
    spdy_streams.py     streams over SPDY, on a connection or through a WebSocket

What the containers say and do is decided in tools/kubernetes/kubelet/scripts.
"""
