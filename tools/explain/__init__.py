"""`berth explain`: shows why the scheduler would place a pod on a node, or on none."""
