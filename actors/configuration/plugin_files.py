"""The plugins of files, which `--plugin FILE:CLASS` offers like those of installed packages.

The environment variable BERTH_PLUGINS names them, one a line, so that the processes which a command
starts have them too. A file is imported once, until `loaded_again` takes its present content, and
that of the modules beside it that it imports.
"""

from __future__ import annotations

import os
import sys
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module, invalidate_caches
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import msgspec

from berth.plugin import Plugin

from ..scheduling.decision.failures import CRASHES, raise_if_not_plugins, text_of
from ..scheduling.decision.overruns import calls_plugins
from ..scheduling.decision.registry import RegistryError
from ..scheduling.plugins.in_tree import IN_TREE

VARIABLE = "BERTH_PLUGINS"
_INSTALLED = ("site-packages", "dist-packages")  # folders of packages, not of one's own modules
_loaded: dict[str, _Loaded] = {}  # by FILE:CLASS


class _Loaded(msgspec.Struct, frozen=True):
    """A class, and the version of the file that it is from: a check sum of the content."""

    kind: type[Plugin]
    version: str


@contextmanager
def offering(texts: Sequence[str]) -> Iterator[None]:
    """Offers the classes of these FILE:CLASS in the block, besides those that are offered. Raises
    RegistryError if one cannot be used.
    """
    before = os.environ.get(VARIABLE)
    written = [*_offered(), *map(_absolute, texts)]
    os.environ[VARIABLE] = "\n".join(dict.fromkeys(written))
    try:
        plugins_of_files()
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
        for text in set(written) - set(_offered()):
            _loaded.pop(text, None)


def plugins_of_files() -> Mapping[str, type[Plugin]]:
    """Returns the classes that are offered, by the plugin's name. Raises RegistryError."""
    by_name: dict[str, type[Plugin]] = {}
    for text in _offered():
        if text not in _loaded:
            _loaded[text] = _load(text)
        kind = _loaded[text].kind
        if kind.name in by_name:
            raise RegistryError(f"{text}: another file has a plugin of the name {kind.name}")
        by_name[kind.name] = kind
    return by_name


def files_offered() -> Mapping[str, Path]:
    """Returns the file of each FILE:CLASS that is offered."""
    return {text: _parted(text)[0] for text in _offered()}


def file_and_version(kind: type[Plugin]) -> tuple[Path, str] | None:
    """Returns the file of a class that is offered, and its version; None for any other class."""
    for text, file in files_offered().items():
        loaded = _loaded.get(text)
        if loaded is not None and loaded.kind is kind:
            return file, loaded.version
    return None


def versions_of_files() -> dict[str, str]:
    """Returns the version of each class that is offered, by the plugin's name. Raises
    RegistryError.
    """
    plugins_of_files()
    loaded = (_loaded[text] for text in _offered())
    return {each.kind.name: each.version for each in loaded}


def files_behind(file: Path) -> list[Path]:
    """Returns the file of a plugin, and the files of modules beside it that are imported."""
    modules = _modules_of(file).values()
    files = {Path(module.__file__) for module in modules if module.__file__}
    return [file, *sorted(files - {file})]


@contextmanager
def loaded_again(text: str) -> Iterator[type[Plugin]]:
    """Offers the class of the file's present content; again that of before if the block raises.
    Raises RegistryError.
    """
    before, file = _loaded[text], _parted(text)[0]
    modules = _modules_of(file)
    _forget(modules)
    try:
        after = _load(text, before.kind.name)
        _loaded[text] = after
        yield after.kind
    except BaseException:
        _loaded[text] = before
        _forget(_modules_of(file))
        sys.modules.update(modules)
        raise


def load_plugin(text: str) -> type[Plugin]:
    """Imports the file of FILE:CLASS, and returns the class. Raises RegistryError."""
    path, name = _parted(text)
    module = _imported(path)
    kind = vars(module).get(name)
    if kind is None:
        own = [
            each
            for each, value in vars(module).items()
            if isinstance(value, type)
            and issubclass(value, Plugin)
            and value.__module__ == module.__name__
        ]
        has = f"it has {', '.join(own)}" if own else "it has no plugin"
        raise RegistryError(f"{path}: expected the class {name}: {has}")
    try:
        plugin_name(kind)
    except RegistryError as problem:
        raise RegistryError(f"{path}: {problem}") from None
    checked: type[Plugin] = kind
    return checked


def _load(text: str, name: str = "") -> _Loaded:
    """Imports the file of FILE:CLASS, whose plugin is to have this name, if it is given. Raises
    RegistryError.
    """
    kind = load_plugin(text)
    if name and kind.name != name:
        raise RegistryError(f"{text}: expected the name {name!r}, got {kind.name!r}")
    loader = sys.modules[kind.__module__].__loader__
    return _Loaded(kind, loader.version if isinstance(loader, _Source) else "")


def plugin_name(plugin: object) -> str:
    """Returns the name of a plugin class that no package registers. Raises RegistryError if it is
    no plugin, or its name is that of an in-tree plugin.
    """
    if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        raise RegistryError(f"expected a Plugin class, got {plugin!r}")
    name: object = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name or not name.isprintable():
        raise RegistryError(f"plugin {plugin.__name__}: expected a name, got {name!r}")
    if name in IN_TREE:
        raise RegistryError(f"plugin {plugin.__name__}: {name} is the name of an in-tree plugin")
    return name


def _offered() -> list[str]:
    return os.environ.get(VARIABLE, "").splitlines()


def _parted(text: str) -> tuple[Path, str]:
    file, _, name = text.rpartition(":")
    if not file or not name.isidentifier():
        raise RegistryError(f"{text}: expected FILE:CLASS, such as price.py:Price")
    return Path(file), name


def _absolute(text: str) -> str:
    path, name = _parted(text)
    return f"{path.absolute()}:{name}"


class _Source(SourceFileLoader):
    """A loader that knows no bytecode, whose time stamp cannot tell two changes in one second.
    `version` is the check sum of what it has loaded.
    """

    version = ""

    def get_code(self, fullname: str) -> CodeType:
        data = self.get_data(self.path)
        self.version = f"{crc32(data):08x}"
        code: CodeType = self.source_to_code(data, self.path)
        return code


def _place_of(path: Path) -> tuple[Path, list[str]]:
    """Returns the folder from which a file is imported, and the parts of its module's name."""
    folder, parts = path.absolute().parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, parts


def _module_name(parts: Sequence[str]) -> str:
    return ".".join(parts) if len(parts) > 1 else f"plugin_file_{parts[0]}"


def _modules_of(path: Path) -> dict[str, ModuleType]:
    """Returns the module of a plugin's file, and the modules beside it or in its package that are
    imported, without those of other plugins.
    """
    folder, parts = _place_of(path)
    own, alone, within = _module_name(parts), len(parts) == 1, f"{folder}{os.sep}"

    def is_behind(name: str, module: ModuleType) -> bool:
        top = name.partition(".")[0]
        if folder.name in _INSTALLED if alone else top != parts[0]:
            return False
        first: str = getattr(sys.modules.get(top), "__file__", None) or ""
        # Most lie elsewhere: their text tells it in 1 ms for all, where paths take 60.
        if not first.startswith(within) or Path(first).parent not in (folder, folder / top):
            return False
        return not isinstance(module.__loader__, _Source)

    return {
        name: module
        for name, module in list(sys.modules.items())
        if name == own or is_behind(name, module)
    }


def _forget(modules: Mapping[str, ModuleType]) -> None:
    """Has modules imported anew, from their sources."""
    for name, module in modules.items():
        sys.modules.pop(name, None)
        compiled = getattr(module, "__cached__", None)
        if compiled:
            with suppress(OSError):
                Path(compiled).unlink()
    invalidate_caches()


@calls_plugins
def _imported(path: Path) -> ModuleType:
    """Imports a file anew, as a module of its package if it is in one. What lies beside it can be
    imported, as from a script.
    """
    if not path.is_file():
        problem = "it is no file" if path.exists() else "No such file or directory"
        raise RegistryError(f"{path}: cannot be read: {problem}")
    folder, parts = _place_of(path)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    name = _module_name(parts)
    spec = spec_from_file_location(name, path, loader=_Source(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module, before = module_from_spec(spec), sys.modules.get(name)
    try:
        if len(parts) > 1:  # It may import the file itself.
            import_module(".".join(parts[:-1]))
        sys.modules[name] = module
        spec.loader.exec_module(module)
    except CRASHES as exception:
        with suppress(KeyError):
            del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise_if_not_plugins(exception)
        raise RegistryError(
            f"{path}{_line(exception, path)}: cannot be imported: {text_of(exception)}"
        ) from exception
    return module


def _line(exception: BaseException, path: Path) -> str:
    """Returns the line of the file at which importing it failed, as `:7`; "" if none is known."""
    line = exception.lineno if isinstance(exception, SyntaxError) else None
    trace = exception.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f":{line}" if line else ""
