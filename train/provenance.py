"""Which commit of this project made a result."""

from __future__ import annotations

import subprocess
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[1]


def git_commit() -> str | None:
    """The checkout's commit, "-dirty" behind it if tracked files have changed; None where this is no checkout.

    An installed package may lie in somebody else's repository, whose commit would say nothing.
    """
    if not (_CHECKOUT / ".git").exists():
        return None
    command = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or a repository without a commit
        return None
