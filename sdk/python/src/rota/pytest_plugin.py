"""The fixture ``rota_cluster``: a cluster on loopback for the tests of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import DevCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the number of nodes."""
    parser.addini("rota_nodes", "how many nodes rota_cluster has: 1, 3 or 5", default="1")


@pytest.fixture(scope="session")
def rota_cluster(request: pytest.FixtureRequest) -> Iterator[DevCluster]:
    """Return a cluster: ``rota_cluster.addr``, ``rota_cluster.connect()``.

    All tests of the session share it: give each test its own ids and queues. The binary is the one
    that ROTA_BIN names, or rota on the PATH.
    """
    with DevCluster(int(request.config.getini("rota_nodes"))) as cluster:
        yield cluster
