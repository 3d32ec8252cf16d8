"""The check of training on a GPU: without one it says so, and with the CPU in its place it goes through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch as th

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "gpu.py"


def run(*arguments: str) -> str:
    result = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.skipif(th.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    assert run().startswith("There is no GPU")


def test_it_goes_through_on_the_cpu():
    output = run("--device", "cpu", "--repeats", "0")
    assert "losses differ by 0.0e+00 at most, weights by 0.00%" in output and "WRONG" not in output


@pytest.mark.skipif(not th.cuda.is_available(), reason="there is no GPU")
def test_training_on_the_gpu_is_that_on_the_cpu():
    assert "no step of the optimizer waits" in run("--repeats", "0")
