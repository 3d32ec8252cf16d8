"""What all tests share: one way to find the package, and the same hypothesis examples on every machine."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import settings

settings.register_profile("reproducible", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("reproducible")

if importlib.util.find_spec("fool_env.agents") is None:
    # A checkout's fool_env/ shadows an installed wheel and lacks agents/ and train/, which lie beside it.
    pytest.exit("there is no fool_env.agents: install the checkout with `pip install -e '.[train,studies,dev]'`", 2)
