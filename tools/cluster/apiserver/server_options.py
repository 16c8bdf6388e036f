"""The options of the commands that run an API server: TLS, rights, admission plugins, scripts."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec

from ...kubernetes.api.access.users import ADMINISTRATOR, MASTERS
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.admission_plugins import (
    DEFAULT_PLUGINS,
    NODE_RESTRICTION,
    enabled_plugins,
)
from ...kubernetes.api.types.resources import Kind
from ...kubernetes.api.types.runtime_config import kinds_on_request
from ...kubernetes.kubelet.scripts.commands import ScriptError
from ...kubernetes.kubelet.scripts.ports import AllowedPorts
from ...kubernetes.kubelet.scripts.script_rules import Scripts
from .kubeconfig import ClientIdentity
from .service_account_folder import PLACE, environment, write_folder

Command = Callable[..., Any]


class Tls(msgspec.Struct, frozen=True):
    """The certificates of a server: its authority's in PEM, the context for the server that
    listens, a way to get what a client shows that acts as a user in these groups, and the
    authority's way to issue a certificate that somebody asked for.
    """

    certificate: str
    context: ssl.SSLContext
    identity: Callable[[str, Sequence[str]], ClientIdentity]
    issue: Callable[..., str]

    def administrator(self) -> ClientIdentity:
        return self.identity(ADMINISTRATOR.name, [MASTERS])


class ServerOptions(msgspec.Struct, frozen=True):
    """What the options say. `enable` and `disable` are admission plugins. `certificates` is the
    folder that keeps the authority, `account_folder` the one for the credentials of a service
    account, and `account` its namespace and name. `scripts` are those of hollow containers. With
    `webhooks`, admission webhooks are asked. `runtime` are kinds that are served beside the others.
    """

    tls: bool = False
    secure: bool = False
    certificates: Path | None = None
    enable: frozenset[str] = frozenset()
    disable: frozenset[str] = frozenset()
    account_folder: Path | None = None
    account: tuple[str, str] = ("default", "default")
    scripts: Scripts | None = None
    webhooks: bool = False
    runtime: tuple[Kind, ...] = ()

    def plugins(self, without: str = "") -> frozenset[str]:
        """Returns the admission plugins that run; the plugin `without` only if it is enabled by
        name. Raises click.UsageError.
        """
        try:
            return enabled_plugins(self.enable, self.disable, DEFAULT_PLUGINS - {without})
        except ValueError as problem:
            raise click.UsageError(str(problem)) from None

    def prepare(self, store: Store, names: Iterable[str] = ()) -> Tls | None:
        """Tells the store who is known, and what else it serves. Returns the certificates of the
        server, which has these names too; None without TLS. Raises OSError and
        click.ClickException.
        """
        if self.runtime:
            store.catalog = store.catalog.replacing((), self.runtime)
        if not (self.tls or self.secure or self.account_folder):
            return None
        store.secure = self.secure
        if self.secure and NODE_RESTRICTION not in self.disable:
            store.plugins |= {NODE_RESTRICTION}  # as kubeadm does
        tls = _tls(self.certificates, names)
        if self.secure:
            from .token_key import RsaTokenKey  # as TLS does, it needs cryptography

            store.token_signer = RsaTokenKey(self.certificates)
        store.root_certificate = tls.certificate
        return tls

    def write_account(self, store: Store, url: str) -> None:
        """Writes the folder of the service account, if there is one, and says how to use it. Raises
        OSError and RefusedError.
        """
        if self.account_folder is not None:
            write_folder(store, self.account_folder, *self.account)
            where = f"{environment(url)}, with {self.account_folder} at {PLACE}"
            click.echo(f"in-cluster configuration: {where}", err=True)


def _tls(folder: Path | None, names: Iterable[str]) -> Tls:
    try:
        from .authority import Authority
    except ImportError:
        why = "TLS needs the package cryptography; try: pip install cryptography"
        raise click.ClickException(why) from None
    now = datetime.now(UTC)
    try:
        authority = Authority(now) if folder is None else Authority.kept_in(folder, now)
    except ValueError as problem:
        raise click.ClickException(f"{folder}: {problem}") from None
    context = authority.context(authority.server(names))
    return Tls(authority.pair.certificate, context, authority.client, authority.issue)


def server_options(command: Command) -> Command:
    """Adds the options to a command, which gets them as `server: ServerOptions`."""

    @wraps(command)
    def with_server(
        *arguments: Any,
        tls: bool,
        secure: bool,
        cert_dir: Path | None,
        service_account_dir: Path | None,
        service_account: str,
        admission_webhooks: bool,
        runtime_config: tuple[str, ...],
        enable_admission_plugins: tuple[str, ...],
        disable_admission_plugins: tuple[str, ...],
        scripts: Path | None,
        forward_ports: str,
        **options: Any,
    ) -> Any:
        if admission_webhooks and find_spec("aiohttp") is None:
            why = "webhooks need the package aiohttp; try: pip install aiohttp"
            raise click.ClickException(why)
        enable, disable = _names(enable_admission_plugins), _names(disable_admission_plugins)
        account = _account(service_account)
        server = ServerOptions(
            tls,
            secure,
            cert_dir,
            enable,
            disable,
            service_account_dir,
            account,
            _scripts(scripts, forward_ports),
            admission_webhooks,
            _runtime(runtime_config),
        )
        return command(*arguments, server=server, **options)

    added: Command = with_server
    for verb, which in (("disable", "Do not run"), ("enable", "Also run")):
        added = click.option(
            f"--{verb}-admission-plugins",
            multiple=True,
            metavar="NAME,…",
            help=f"{which} these admission plugins of Kubernetes, comma-separated; repeatable.",
        )(added)
    added = click.option(
        "--forward-ports",
        default="",
        metavar="PORT,…",
        help="Ports of this machine, such as 8080,9000-9010, that the annotation berth.dev/ports "
        "of any pod may name for port-forward; none by default.",
    )(added)
    added = click.option(
        "--scripts",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="What containers log, and what their commands do; pods may also say it in "
        "annotations such as berth.dev/logs.",
    )(added)
    added = click.option(
        "--service-account",
        default="default/default",
        show_default=True,
        metavar="NAMESPACE/NAME",
        help="The service account of --service-account-dir; it is created if there is none.",
    )(added)
    added = click.option(
        "--service-account-dir",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Write a service account's token, its namespace and the authority's certificate to "
        "this folder, for programs that expect to be in a cluster; with TLS.",
    )(added)
    added = click.option(
        "--cert-dir",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Keep the certificate authority in this folder, so that it survives a restart.",
    )(added)
    added = click.option(
        "--secure",
        is_flag=True,
        help="Ask who sends a request (a client certificate or a token), and keep to RBAC; "
        "with TLS.",
    )(added)
    added = click.option(
        "--runtime-config",
        multiple=True,
        metavar="GROUP/VERSION=true,…",
        help="Serve these versions too, such as resource.k8s.io/v1beta1, or api/beta for all of "
        "them, comma-separated; repeatable.",
    )(added)
    added = click.option(
        "--admission-webhooks",
        is_flag=True,
        help="Ask the webhooks that are configured, of admission and conversion, over HTTPS.",
    )(added)
    return click.option(
        "--tls",
        is_flag=True,
        help="Serve HTTPS; the kubeconfig has the authority and a client certificate.",
    )(added)


def _scripts(file: Path | None, forward_ports: str) -> Scripts:
    """Returns the scripts of a file, if there is one. Raises click.ClickException."""
    try:
        allowed = AllowedPorts(forward_ports)
        if file is None:
            return Scripts(allowed=allowed)
        from .streams.script_files import read_scripts

        return Scripts(read_scripts(file), allowed)
    except (ScriptError, OSError) as problem:
        raise click.ClickException(str(problem)) from None


def _account(text: str) -> tuple[str, str]:
    """Returns a namespace and a name. Raises click.UsageError."""
    namespace, _, name = text.partition("/")
    if not (namespace and name) or "/" in name:
        raise click.UsageError(f"--service-account: expected NAMESPACE/NAME, got {text!r}")
    return namespace, name


def _runtime(values: tuple[str, ...]) -> tuple[Kind, ...]:
    """Returns the kinds of --runtime-config. Raises click.UsageError."""
    try:
        return kinds_on_request(sorted(_names(values)))
    except ValueError as problem:
        raise click.UsageError(f"--runtime-config: {problem}") from None


def _names(values: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.strip() for value in values for name in value.split(",") if name.strip())
