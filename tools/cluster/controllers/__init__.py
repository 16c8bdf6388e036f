"""Runs the controllers of a toy cluster, as kube-controller-manager does.

controller_table has a row a controller: what it watches and how it decides; the rows stand in the
*_controllers. controller_manager runs them: it decides and writes, object_watches follows.
embedded_access reaches an API server of the same process.
"""
