"""Networks without torch: its logits up to rounding, and exactly the same in every batch."""

import numpy as np
import pytest
import torch as th
from positions import decisions

from fool_env.agents.inference import RowNetwork
from fool_env.agents.network import KINDS, PolicyNetwork
from fool_env.agents.neural import NeuralAgent
from fool_env.observation import encode
from fool_env.rules import Rules


def a_network(kind: str, hidden: list[int], seed: int = 5) -> PolicyNetwork:
    """Untrained, with biases and weights of the facts that matter."""
    th.manual_seed(seed)
    network = PolicyNetwork(kind, hidden).requires_grad_(False)
    for name, tensor in network.named_parameters():
        if name.endswith("bias") or name.startswith("trunk.weights"):
            th.nn.init.normal_(tensor, std=0.3)
    return network


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [[8], [64, 64], [33, 17, 50]])
@pytest.mark.parametrize("preset", ["official_4", "official_8"])
def test_logits_are_torchs_up_to_rounding(kind: str, hidden: list[int], preset: str) -> None:
    network = a_network(kind, hidden)
    observations = encode(decisions(preset, 150)[0])
    expected = network(th.from_numpy(observations)).numpy()
    found = RowNetwork(network)(observations)
    assert found.dtype == np.float32 and np.ptp(expected) > 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_in_every_batch(kind: str) -> None:
    logits_of = RowNetwork(a_network(kind, [37, 64]))
    observations = encode(decisions("official_6", 130)[0])
    together = logits_of(observations)
    order = np.random.default_rng(0).permutation(130)
    np.testing.assert_array_equal(logits_of(observations[order]), together[order])
    for size in (1, 3, 64):
        parts = [logits_of(observations[start : start + size]) for start in range(0, 130, size)]
        np.testing.assert_array_equal(np.concatenate(parts), together)
    assert logits_of(observations[:0]).shape == (0, 83)


def test_an_agent_plays_with_the_weights_that_it_was_given_last() -> None:
    views, seeds = decisions("official_6", 200)
    agent, other = (NeuralAgent(a_network("facts", [16], seed), [Rules.official(6)]) for seed in (1, 2))
    before, wanted = agent.act(views, seeds), other.act(views, seeds)
    assert (before != wanted).any()
    agent.load({name: tensor.numpy() for name, tensor in other.network.state_dict().items()})
    np.testing.assert_array_equal(agent.act(views, seeds), wanted)
