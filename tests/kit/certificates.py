"""A certificate authority for one test run, made by the `openssl` command."""

from __future__ import annotations

import base64
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.kit.programs import missing

EC = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


class Authority:
    """Issues certificates into `folder`, each as NAME.crt with NAME.key; its own are ca.crt and
    ca.key.

    Its certificate has no key usage, and those that it signs have no key identifier: these are the
    defaults of `openssl`.
    """

    def __init__(self, folder: Path) -> None:
        if why := missing("openssl"):
            pytest.skip(why)
        self.folder = folder
        self.sign_itself("ca")

    def issue(self, name: str, *names: str) -> None:
        """Issues a certificate with CN=`name`; `names` are alternative names such as IP:127.0.0.1
        or DNS:host.
        """
        self.sign(name, f"subjectAltName={','.join(names or (f'DNS:{name}',))}")

    def sign(
        self,
        name: str,
        *extensions: str,
        common_name: str = "",
        by: str = "ca",
        key: tuple[str, ...] = EC,
        digest: str = "sha256",
        days: tuple[str, str] | None = None,
    ) -> None:
        """Issues a certificate with these extensions. `by` names the signer, `days` the first and
        the last day of validity (YYYYMMDD).
        """
        (self.folder / "extensions").write_text("\n".join(extensions))
        self._openssl("req", *self._new(name, key, common_name), "-out", f"{name}.csr")
        files = ("-in", f"{name}.csr", "-out", f"{name}.crt")
        if days is None:
            signer = (
                "-CA",
                f"{by}.crt",
                "-CAkey",
                f"{by}.key",
                "-CAcreateserial",
                f"-{digest}",
                "-days",
                "2",
            )
            self._openssl("x509", "-req", *signer, *files, "-extfile", "extensions")
            return
        settings = (
            "[x]\ndatabase=index\nserial=serial\nnew_certs_dir=."
            "\npolicy=p\n[p]\ncommonName=supplied\n"
        )
        (self.folder / "settings").write_text(f"[ca]\ndefault_ca=x\n{settings}")
        (self.folder / "index").touch()
        first, last = (f"{day}000000Z" for day in days)
        dates = (
            "-startdate",
            first,
            "-enddate",
            last,
            "-md",
            digest,
            "-config",
            "settings",
            "-rand_serial",
            "-batch",
        )
        self._openssl(
            "ca",
            *dates,
            "-cert",
            f"{by}.crt",
            "-keyfile",
            f"{by}.key",
            *files,
            "-extfile",
            "extensions",
        )

    def sign_itself(
        self, name: str, *extensions: str, key: tuple[str, ...] = EC, digest: str = "sha256"
    ) -> None:
        added = [word for extension in extensions for word in ("-addext", extension)]
        self._openssl(
            "req",
            "-x509",
            "-days",
            "2",
            f"-{digest}",
            *self._new(name, key),
            *added,
            "-out",
            f"{name}.crt",
        )

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def data(self, name: str) -> str:
        """Returns a file in base64, the form of a kubeconfig."""
        return base64.b64encode((self.folder / name).read_bytes()).decode()

    def server(self, name: str, *, asks_clients: bool = False) -> ssl.SSLContext:
        """Returns a server's context with this certificate. With `asks_clients` it refuses clients
        without a certificate of this authority.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(self.path("ca.crt"))
        context.load_cert_chain(self.path(f"{name}.crt"), self.path(f"{name}.key"))
        context.verify_mode = ssl.CERT_REQUIRED if asks_clients else ssl.CERT_NONE
        return context

    @staticmethod
    def _new(name: str, key: tuple[str, ...], common_name: str = "") -> tuple[str, ...]:
        return (
            "-newkey",
            *key,
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-subj",
            f"/CN={common_name or name}",
        )

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)
