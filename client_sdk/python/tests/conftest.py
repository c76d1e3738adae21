"""Tests of the package against a pool of real processes (one for the session)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/harness"))

import moonpool  # noqa: E402
from pool import Pool  # noqa: E402


@pytest.fixture(scope="session")
def pool():
    with Pool(nodes=2, dram="256MiB") as running:
        yield running


@pytest.fixture
def client(pool, request):
    # A namespace of its own for each test: keys do not meet.
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with moonpool.Client(pool.master, namespace=name, fingerprint="test") as made:
        yield made
