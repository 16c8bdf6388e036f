"""The shadow: decides for each pod that another scheduler binds, and compares. Writes nothing."""
