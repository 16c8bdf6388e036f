"""A certificate authority for one test run, made by the `openssl` command."""

from __future__ import annotations

import base64
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


class Authority:
    """Issues certificates into `folder`, each as NAME.crt with NAME.key."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("certificates are made by the openssl command, which is not here")
        self.folder = folder
        self._openssl("req", "-x509", "-days", "2", *self._new("ca"), "-out", "ca.crt")

    def issue(self, name: str, *names: str) -> None:
        """A certificate with CN=`name`; `names` are alternative ones such as IP:127.0.0.1 or DNS:host."""
        (self.folder / "extensions").write_text(f"subjectAltName={','.join(names or (f'DNS:{name}',))}\n")
        self._openssl("req", *self._new(name), "-out", f"{name}.csr")
        signing = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
        self._openssl("x509", "-req", "-days", "2", "-in", f"{name}.csr", *signing, "-out", f"{name}.crt")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def data(self, name: str) -> str:
        """In base64, as a kubeconfig holds it."""
        return base64.b64encode((self.folder / name).read_bytes()).decode()

    def server(self, name: str, *, asks_clients: bool = False) -> ssl.SSLContext:
        """The context of a server with this certificate; `asks_clients` refuses whoever has none of ours."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.path("ca.crt"))
        context.load_cert_chain(self.path(f"{name}.crt"), self.path(f"{name}.key"))
        context.verify_mode = ssl.CERT_REQUIRED if asks_clients else ssl.CERT_NONE
        return context

    @staticmethod
    def _new(name: str) -> tuple[str, ...]:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*key, "-keyout", f"{name}.key", "-subj", f"/CN={name}")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)
