"""Which sources made a result, on what machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import fool_env
from fool_env import agents


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


def players_digest() -> str:
    """Of the sources by which games are played, those of the environment and of the agents: 12 hexadecimal digits."""
    return sources_digest(Path(str(fool_env.__file__)).parent, Path(str(agents.__file__)).parent)


def sources_digest(*folders: Path) -> str:
    """Of the Python files in folders."""
    digest = hashlib.sha256()
    for source in (source for folder in folders for source in sorted(folder.glob("*.py"))):
        content = source.read_bytes()
        digest.update(f"{source.name}:{len(content)}:".encode() + content)
    return digest.hexdigest()[:12]


def machine() -> dict[str, str]:
    """The versions of what decides speed and results, and the CPU's model."""
    packages = {name: version(name) for name in ("fool-env", "numpy", "numba")}
    return {**packages, "python": platform.python_version(), "cpu": _cpu_model()}


def hardware() -> dict[str, str | int]:
    """The CPU's model, and how many cores this process may use."""
    return {"cpu": _cpu_model(), "cores": usable_cores()}


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
