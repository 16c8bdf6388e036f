"""`berth plugin`: what an author of a plugin needs from nothing to a plugin in a demo.

plugin_command     the group, with `check` and `run`
new_plugin         `new`: writes a package
plugin_kinds       the classes and tests of new packages, by extension point
plugin_list        `list`: which plugins there are, and why some are not loaded
"""
