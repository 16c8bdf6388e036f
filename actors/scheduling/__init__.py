"""The pure library that the actors decide with: kube, cel, model, framework, plugins, decision."""
