"""Which sources made a result, on what machine."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def source_commit() -> str | None:
    """The git commit of the sources that run, "-dirty" behind it if tracked files changed; None outside a checkout."""
    this = Path(__file__).resolve()
    git = ["git", "-C", str(this.parent)]
    try:
        # Tracked, or else it is an installation that happens to lie within somebody's repository.
        subprocess.run([*git, "ls-files", "--error-unmatch", this.name], check=True, capture_output=True)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(describe, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> dict[str, str]:
    """The versions of what decides speed and results, and the CPU's model."""
    packages = {name: version(name) for name in ("fool-env", "numpy", "numba")}
    return {**packages, "python": platform.python_version(), "cpu": _cpu_model()}


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
