"""Which sources made a result."""

from __future__ import annotations

import subprocess
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
