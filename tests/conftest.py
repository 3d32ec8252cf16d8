"""What all tests share: one way to find the package, and the same hypothesis examples on every machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("run_folders")  # so that it says what differs

settings.register_profile("reproducible", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("reproducible")

if importlib.util.find_spec("fool_env.agents") is None:
    # A checkout's fool_env/ shadows an installed wheel and lacks agents/ and train/, which lie beside it.
    pytest.exit("there is no fool_env.agents: install the checkout with `pip install -e '.[train,studies,dev]'`", 2)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread for torch: two take ten times as long over the tests' small networks."""
    import torch as th  # slow to import, and most tests do without

    before = th.get_num_threads()
    th.set_num_threads(1)
    yield
    th.set_num_threads(before)
