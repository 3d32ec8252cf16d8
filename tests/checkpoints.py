"""Checkpoints of untrained networks, made in no time."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fool_env import Rules
from fool_env.agents.network import PolicyNetwork
from fool_env.agents.neural import CHECKPOINT_FORMAT
from fool_env.observation import OBSERVATION_SIZE, OBSERVATION_VERSION

HIDDEN = [8]


def write_checkpoint(
    path: Path, rules: Rules | Sequence[Rules], description: dict[str, Any] | None = None, weights: Any = None
) -> str:
    """An untrained network as a checkpoint, or one with something wrong."""
    torch.manual_seed(1)
    if weights is None:
        names = PolicyNetwork("mlp", HIDDEN).state_dict().items()
        weights = {name.replace("trunk.", "features_extractor.layers."): tensor for name, tensor in names}
    says = {
        "format": CHECKPOINT_FORMAT,
        "observation_version": OBSERVATION_VERSION,
        "observation_size": OBSERVATION_SIZE,
        "rules": [table.to_dict() for table in ([rules] if isinstance(rules, Rules) else rules)],
        "episode": "round",
        "network": {"kind": "mlp", "hidden": HIDDEN},
    }
    saved = io.BytesIO()
    torch.save(weights, saved)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fool.json", json.dumps({**says, **(description or {})}))
        archive.writestr("policy.pth", saved.getvalue())
    return str(path)
