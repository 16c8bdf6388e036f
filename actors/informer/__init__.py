"""The informer actor: lists and watches one kind, and routes its changes."""
