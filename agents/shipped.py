"""The trained agents that come with this package: `pretrained:6p` is `pretrained/6p.zip` beside this module.

Its model card, `pretrained/6p.md`, says how it was made and how strong it is; `train/publish.py` writes both.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Final

SHIPPED_PREFIX: Final = "pretrained:"
SHIPPED_FOLDER = Path(str(resources.files(f"{__package__}.pretrained")))

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_WITHIN: Final = re.compile(re.escape(SHIPPED_PREFIX) + _NAME.pattern)


def shipped_names() -> list[str]:
    """What may stand behind "pretrained:", in order."""
    return sorted(path.stem for path in SHIPPED_FOLDER.glob("*.zip"))


def shipped_path(name: str) -> Path:
    """Where the agent of that name is, or would be.

    Raises:
        ValueError: no agent could be called so.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for an agent: letters, digits, - and _ make one")
    return SHIPPED_FOLDER / f"{name}.zip"


def shipped_within(spec: str) -> dict[str, Path]:
    """The files of the shipped agents that a `make_agent` string names, by their own strings."""
    return {found: shipped_path(found.removeprefix(SHIPPED_PREFIX)) for found in _WITHIN.findall(spec)}
