"""What tests of several rooms share and is dear to make."""

from __future__ import annotations

import pytest
import structlog

from tests.kit.certificates import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Certificates: `server` is for 127.0.0.1, `named` for berth.example alone, `common-name` for
    nothing but its CN; `client` is a client's.
    """
    made = Authority(tmp_path_factory.mktemp("certificates"))
    made.issue("server", "IP:127.0.0.1")
    made.issue("named", "DNS:berth.example")
    made.sign("common-name", "basicConstraints=CA:FALSE", common_name="127.0.0.1")
    made.issue("client")
    return made


@pytest.fixture(autouse=True)
def logs_as_they_are_by_default() -> None:
    """Commands configure the logs of their process, which a test that reads logs must not find."""
    structlog.reset_defaults()
