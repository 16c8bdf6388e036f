"""Binding: takes a pod from its chosen node to a bound pod, or undoes it; many at a time."""
