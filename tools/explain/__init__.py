"""`berth explain`: why the scheduler would place a pod where it does, or nowhere."""
