"""What each of several processes does in test_distributed.py: `python tests/ranks.py WHAT [argument ...]`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch as th
from learners import make_learner

from fool_env import FoolVectorEnv, Rules
from fool_env.train import ppo
from fool_env.train.decisions import Decisions
from fool_env.train.distributed import Ranks
from fool_env.train.selfplay import SelfPlayPPO


def learner_at(num_tables: int, seed: int, ranks: Ranks, **options) -> SelfPlayPPO:
    """One with card facts, at tables whose deals are the rank's own."""
    tables = FoolVectorEnv(num_tables, Rules.official(4), "round", "relative", seed=ranks.seed(seed))
    options = {"n_steps": 30, "reward_scale": 0.05, "learning_rate": 3e-3, **options}
    return make_learner(tables, hidden=(32,), kind="facts", threads=1, seed=seed, ranks=ranks, **options)


def pooled(parts: Sequence[SelfPlayPPO], seed: int) -> SelfPlayPPO:
    """A learner on its own, untrained, whose rollout is that of the parts put together."""
    learner = learner_at(sum(part["tables"] for part in parts), seed, Ranks(), n_epochs=1, batch_size=10**6)
    buffer = learner.rollout_buffer
    buffer.clear()
    for number, name in enumerate(Decisions._fields):
        tensor = th.cat([part["decisions"][number] for part in parts])
        getattr(buffer.decisions, name)[: len(tensor)] = tensor
    buffer.size = len(tensor)
    for name in ("advantages", "complete", "legal"):
        getattr(buffer, name)[: buffer.size] = np.concatenate([part[name] for part in parts])
    for name in ("dones", "rows"):
        getattr(buffer, name)[:] = np.concatenate([part[name] for part in parts], axis=1)
    return learner


def first_update(ranks: Ranks) -> dict[str, object]:
    """The gradients and the log of the first update, by ranks of different sizes and by one on the same data."""
    learner = learner_at(9 - 4 * ranks.rank, 5, ranks, n_epochs=1, batch_size=10**6)
    next(learner.iterations(1))
    buffer = learner.rollout_buffer
    parts = ranks.gather(
        {
            "tables": buffer.tables,
            "decisions": [tensor[: buffer.size] for tensor in buffer.decisions],
            **{name: getattr(buffer, name)[: buffer.size] for name in ("advantages", "complete", "legal")},
            **{name: getattr(buffer, name) for name in ("dones", "rows")},
        }
    )
    if not ranks.is_first:
        return {}
    alone = pooled(parts, 5)
    alone._setup_learn(1, None, True, "", False)
    alone.train()
    found = {}
    for name, one in (("ranks", learner), ("alone", alone)):
        found[name] = {
            "gradients": th.cat([parameter.grad.flatten() for parameter in one._parameters]).tolist(),
            "log": {key: value for key, value in one.logger.name_to_value.items() if key != "time/fps"},
        }
    return found


def weights_of(ranks: Ranks) -> dict[str, object]:
    """The weights at each rank, after training with different seeds, and with hardly anything to train on at one."""
    found = []
    for tables, steps, batch in ((12 - 9 * ranks.rank, 20, 50), (40 - 39 * ranks.rank, 2 - ranks.rank, 4)):
        learner = learner_at(tables, ranks.rank, ranks, n_steps=steps, batch_size=batch)
        iterations = islice(learner.iterations(10**9), 6)  # by plays they would not end together
        counts = [ranks.gather(len(learner.rollout_buffer.trainable)) for _ in iterations]
        weights = th.cat([parameter.detach().flatten() for parameter in learner._parameters])
        found.append({"counts": counts, "weights": ranks.gather(weights.tolist()), "updates": learner._n_updates})
    return {"found": found}


def arms(ranks: Ranks) -> dict[str, object]:
    """What is logged at the end by two ranks of 12 tables, and by one process of 24, over seeds."""

    def last_row(seed: int, num_tables: int, batch: int, together: Ranks) -> dict[str, float]:
        learner = learner_at(num_tables, seed, together, batch_size=batch)
        for _ in learner.iterations(24 * 30 * 5):
            row = dict(learner.logger.name_to_value)
        (spread,) = together.moments(learner.rollout_buffer.advantages)[1]
        return row | {"spread of advantages": float(spread)}

    seeds = range(12)
    return {
        "ranks": [last_row(seed, 12, 128, ranks) for seed in seeds],
        "alone": [last_row(100 + seed, 24, 256, Ranks()) if ranks.is_first else {} for seed in seeds],
    }


def crash(arguments: Sequence[str]) -> int:
    """A run in which rank 1 dies in the third iteration."""
    progress_line = ppo.progress_line

    def fail(config, model, seconds):
        if model.ranks.rank == 1 and model.iteration == 3:
            raise MemoryError("planted")
        return progress_line(config, model, seconds)

    ppo.progress_line = fail
    return ppo.main(arguments)


def main() -> int:
    what, *arguments = sys.argv[1:]
    if what == "crash":
        return crash(arguments)
    if what == "train":
        return ppo.main(arguments)
    ranks = Ranks.join()
    found = [{"first_update": first_update, "weights": weights_of, "arms": arms}[name](ranks) for name in arguments]
    if ranks.is_first:
        Path(what).write_text(json.dumps(found))
    ranks.leave()
    return 0


def threads() -> list[str]:
    """What this process's threads are called, where the system tells."""
    return [name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm")]


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        code = main()
    except SystemExit as end:  # of a rank that the first one's mistake ends
        code = end.code
    if any("gloo" in name for name in threads()):  # they would crash some of all processes as Python ends
        sys.exit(f"still talking: {threads()}")
    sys.exit(code)
