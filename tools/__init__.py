"""The workshop: the task runner, the embedded API server, hollow nodes and the commands on top."""
