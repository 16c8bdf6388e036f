"""What answers people, about any cluster: manifests, a live one or a recorded one.

    explain/     why the scheduler places a pod on a node or on none, and what would change that
    whatif/      what would happen to the pods if the cluster changed; sweep/ compares fleets
    debug/       asks a running scheduler for its state
    doctor/      parked pods that would fit
    shadow/      what berth would have decided where another scheduler does
    feed/        a cluster and its scheduler as rows, frames and stories, for the views
    manifests/   reads the objects of files and folders
    terminal/    options that commands share, and answers as HTML

Nothing here knows a toy cluster; the commands are in tools/views/commands.
"""
