"""The pure library that the actors decide with: kube, model, framework, plugins, decision."""
