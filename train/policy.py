"""The masked policy's mathematics, on plain tensors: probabilities, log-probability and entropy, sampling.

An illegal action has probability exactly 0 and takes no part in any gradient, whatever its logit.
"""

from __future__ import annotations

from typing import Any, Final

import torch as th

_FAR: Final = 1e30
"""Below the other logits, an illegal one has no probability left."""


def masked_softmax(logits: th.Tensor, masks: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Probabilities and log-probabilities over the legal actions.

    Args:
        logits: float32[rows, actions].
        masks: bool[rows, actions], at least one True in each row.

    Returns:
        float32[rows, actions] twice: probabilities, exactly 0 where illegal; log-probabilities, meaningless there.
    """
    # Takes a third of the time of filling in -inf; and softmax knows what underflows, which exp() is slow to find out.
    masked = logits.add((~masks).to(logits.dtype), alpha=-_FAR)
    return th.softmax(masked, dim=-1), th.log_softmax(masked, dim=-1)


def sample(probabilities: th.Tensor, uniforms: th.Tensor) -> th.Tensor:
    """One action for each row by inversion: the first whose cumulative probability exceeds the row's uniform number.

    Args:
        probabilities: float32[rows, actions].
        uniforms: float32[rows] in [0, 1).

    Returns:
        int64[rows]; an action of probability 0 is never among them, since its cumulative probability does not rise.
    """
    cumulative = probabilities.cumsum(-1)
    # The last entry rather than 1 makes up for rounding; times 1 - 2**-24 it still rounds to less than itself.
    targets = uniforms.unsqueeze(-1) * cumulative[:, -1:]
    return th.searchsorted(cumulative, targets, right=True).squeeze(-1)


def log_prob_and_entropy(logits: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Log-probability of the actions taken, and entropy of the choice, in nats.

    Args:
        logits: float32[rows, actions].
        masks: bool[rows, actions], at least one True in each row.
        actions: int64[rows].

    Returns:
        float32[rows] twice.
    """
    log_probs, entropy = _MaskedCategorical.apply(logits, masks, actions)  # type: ignore[no-untyped-call]
    return log_probs, entropy


class _MaskedCategorical(th.autograd.Function):
    """Gradients in closed form: automatic differentiation of the same formulas takes three times as long."""

    @staticmethod
    def forward(ctx: Any, logits: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        probabilities, log_probabilities = masked_softmax(logits, masks)
        entropy = -(probabilities * log_probabilities).sum(-1)
        ctx.save_for_backward(probabilities, log_probabilities, entropy, actions)
        return log_probabilities.gather(1, actions.unsqueeze(1)).squeeze(1), entropy

    @staticmethod
    def backward(ctx: Any, *grads: th.Tensor) -> tuple[th.Tensor, None, None]:
        """Gradient of a legal logit l_i: [i taken] - p_i of the log-probability, -p_i (log p_i + H) of the entropy."""
        probabilities, log_probabilities, entropy, actions = ctx.saved_tensors
        log_prob_grad, entropy_grad = grads[0].unsqueeze(1), grads[1].unsqueeze(1)
        grad = (log_probabilities + entropy.unsqueeze(1)).mul_(-entropy_grad).sub_(log_prob_grad).mul_(probabilities)
        return grad.scatter_add_(1, actions.unsqueeze(1), log_prob_grad), None, None


def divergence(logits: th.Tensor, masks: th.Tensor, reference: th.Tensor) -> th.Tensor:
    """The Kullback-Leibler divergence of each choice from a reference's: the sum of p log(p / q), in nats.

    Args:
        logits: float32[rows, actions], of p.
        masks: bool[rows, actions], at least one True in each row.
        reference: float32[rows, actions], log q; illegal actions' are ignored.

    Returns:
        float32[rows], with a gradient towards the logits.
    """
    result: th.Tensor = _Divergence.apply(logits, masks, reference)  # type: ignore[no-untyped-call]
    return result


class _Divergence(th.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: th.Tensor, masks: th.Tensor, reference: th.Tensor) -> th.Tensor:
        probabilities, log_probabilities = masked_softmax(logits, masks)
        excess = (log_probabilities - reference).masked_fill_(~masks, 0.0)
        total = (probabilities * excess).sum(-1)
        ctx.save_for_backward(probabilities, excess, total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: th.Tensor) -> tuple[th.Tensor, None, None]:
        """Gradient of a legal logit l_i: p_i (log(p_i / q_i) - the divergence)."""
        probabilities, excess, total = ctx.saved_tensors
        return probabilities * (excess - total.unsqueeze(1)) * grads[0].unsqueeze(1), None, None
