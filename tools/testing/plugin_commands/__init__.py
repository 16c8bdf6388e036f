"""`berth plugin`: what an author of a plugin needs from nothing to a plugin in a demo.

plugin_command     the group, with `check` and `run`
new_plugin         `new`: writes a package
plugin_kinds       the classes that new packages begin with, by extension point
plugin_kind_tests  the tests of these
plugin_source      the source of such a class and of its test, under another name
plugin_list        `list`: which plugins there are, and why some are not loaded
"""
