"""What an update of PPO minimises, and what is logged of it."""

from __future__ import annotations

from typing import NamedTuple

import torch as th

from fool_env.rules import MAX_PLAYERS
from fool_env.train.decisions import Decisions
from fool_env.train.distributed import Ranks
from fool_env.train.policy import divergence, log_prob_and_entropy

LOSSES = ("policy_loss", "value_loss", "entropy", "average_kl", "relative_entropy", "approx_kl", "clip_fraction")
"""Means over a rollout's minibatches, so over decisions, which have more than one legal action; relative_entropy is the
entropy over log(number of legal actions), average_kl the divergence from the average policy, 0 if it plays no part."""


class Targets(NamedTuple):
    """What the update aims at, for every row of the buffer: float32[rows] but for the last."""

    advantages: th.Tensor
    returns: th.Tensor
    log_legal: th.Tensor  # log(number of legal actions)
    average: th.Tensor  # the average policy's log-probabilities [rows, actions]; of no width if it plays no part

    def at(self, rows: th.Tensor) -> Targets:
        """A copy of some rows."""
        return Targets(*(target.index_select(0, rows) for target in self))


def standardised(advantages: th.Tensor, players: th.Tensor, ranks: Ranks) -> th.Tensor:
    """Advantages with mean 0 and deviation 1 over all rows of as many players, so that no scale outweighs the others.

    Args:
        advantages: float32[rows], on the CPU.
        players: float32[rows], seats as observations say them.
        ranks: the processes that train together.
    """
    groups = (players * MAX_PLAYERS).round().clamp(0, MAX_PLAYERS).long().numpy()
    means, deviations = ranks.moments(advantages.numpy(), groups, MAX_PLAYERS + 1)
    return th.from_numpy((advantages.numpy() - means[groups]) / (deviations[groups] + 1e-8)).float()


def ppo_losses(
    logits: th.Tensor, values: th.Tensor, decisions: Decisions, targets: Targets, clip_range: float
) -> th.Tensor:
    """The LOSSES of some decisions, summed (Schulman et al. 2017, "Proximal policy optimization algorithms").

    Args:
        logits, values: the network's now, float32[rows, actions] and float32[rows].
        decisions, targets: the same rows.
        clip_range: how far the ratio of new to old probability may stray from 1 before it earns nothing more.

    Returns:
        float32[7], of which the first four carry gradients.
    """
    advantages, returns, log_legal, average = targets
    log_probs, entropy = log_prob_and_entropy(logits, decisions.masks, decisions.actions)
    log_ratio = log_probs - decisions.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
    with th.no_grad():
        relative_entropy = entropy / log_legal
        approx_kl = ratio - 1 - log_ratio
        clip_fraction = ((ratio - 1).abs() > clip_range).float()
    policy_loss = -th.min(advantages * ratio, advantages * clipped)
    value_loss = (returns - values).square()
    average_kl = divergence(logits, decisions.masks, average) if average.shape[1] else th.zeros_like(entropy)
    losses = [policy_loss, value_loss, entropy, average_kl, relative_entropy, approx_kl, clip_fraction]
    return th.stack(losses).sum(1)
