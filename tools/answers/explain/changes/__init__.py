"""What would change a decision: changes of the pending pod, each proven by deciding again."""
