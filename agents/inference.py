"""A network's logits without torch: row by row in machine code, faster in small batches and exact.

Libraries for matrices choose their order of additions by the shape of a batch, a row's place in it and the processor.
Here a row's logits depend on the row and the weights alone. Most inputs of a layer are 0 (an observation is made of
flags, half of what comes out of a ReLU is 0), so they are left out.
"""

from __future__ import annotations

import numpy as np
import torch as th
from torch import nn

from fool_env._jit import kernel
from fool_env.cards import NUM_ACTIONS

from .facts import FACTS, card_facts
from .network import CardTrunk, PolicyNetwork


@kernel
def _add_four(
    out: np.ndarray, one: np.ndarray, two: np.ndarray, three: np.ndarray, four: np.ndarray, by: np.ndarray
) -> None:
    first, second, third, fourth = by[0], by[1], by[2], by[3]
    for i in range(len(out)):
        out[i] = (((out[i] + first * one[i]) + second * two[i]) + third * three[i]) + fourth * four[i]


@kernel
def _add_product(inputs: np.ndarray, weights: np.ndarray, out: np.ndarray, used: np.ndarray, by: np.ndarray) -> None:
    """out += inputs @ weights, in the order of the inputs that are not 0; `used` and `by` are room to work in."""
    count = 0
    for i in range(len(inputs)):
        used[count] = i
        count += int(inputs[i] != 0)
    whole = count - count % 4
    for i in range(0, whole, 4):
        for j in range(4):
            by[j] = inputs[used[i + j]]
        _add_four(out, weights[used[i]], weights[used[i + 1]], weights[used[i + 2]], weights[used[i + 3]], by)
    for i in range(whole, count):
        value, row = inputs[used[i]], weights[used[i]]
        for j in range(len(out)):
            out[j] += value * row[j]


@kernel
def _forward(
    observations: np.ndarray,
    actions: np.ndarray,
    facts: np.ndarray,
    sizes: np.ndarray,
    layers: np.ndarray,
    weighing: np.ndarray,
    head: np.ndarray,
    logits: np.ndarray,
) -> None:
    """Fill float32 (rows, 83).

    Args:
        observations, actions, facts: of the network and as `card_facts` says; (rows, 0) of them without facts.
        sizes: of the observation and of each hidden layer.
        layers: of each layer its weights, inputs first, and its biases, one after another.
        weighing: (hidden + 1, facts), what the last layer makes of the facts' weights, biases last.
        head: (hidden + cards + 1, 83), biases last.
    """
    width = sizes[1:].max()
    hidden, before = np.empty(width, np.float32), np.empty(width, np.float32)
    used, by = np.empty(max(sizes.max(), len(head)), np.int64), np.empty(4, np.float32)
    features, card_weights = np.empty(len(head) - 1, np.float32), np.empty(facts.shape[2], np.float32)
    last = sizes[-1]
    for row in range(len(observations)):
        inputs, start = observations[row], 0
        for layer in range(1, len(sizes)):
            size, next_size = sizes[layer - 1], sizes[layer]
            hidden, before = before, hidden
            out, stop = hidden[:next_size], start + size * next_size
            out[:] = layers[stop : stop + next_size]
            _add_product(inputs, layers[start:stop].reshape(size, next_size), out, used, by)
            for i in range(next_size):
                out[i] = max(out[i], np.float32(0))
            inputs, start = out, stop + next_size
        features[:last] = inputs
        features[last:] = 0
        card_weights[:] = weighing[last]
        _add_product(inputs, weighing[:last], card_weights, used, by)
        for card in range(actions.shape[1]):
            if actions[row, card] < NUM_ACTIONS:
                for fact in range(len(card_weights)):
                    features[last + actions[row, card]] += facts[row, card, fact] * card_weights[fact]
        logits[row] = head[-1]
        _add_product(features, head[:-1], logits[row], used, by)


class RowNetwork:
    """The logits of a `PolicyNetwork` with the weights that it has now, which are copied.

    They are torch's up to rounding.
    """

    def __init__(self, network: PolicyNetwork) -> None:
        trunk = network.trunk
        hidden = trunk.layers if isinstance(trunk, CardTrunk) else trunk
        layers = [layer for layer in hidden.children() if isinstance(layer, nn.Linear)]
        self._sizes = np.array([layers[0].in_features, *(layer.out_features for layer in layers)])
        self._layers = np.concatenate([_weights_of(layer).ravel() for layer in layers])
        self._sees_facts = isinstance(trunk, CardTrunk)
        self._weighing = (
            _weights_of(trunk.weights)
            if isinstance(trunk, CardTrunk)
            else np.zeros((self._sizes[-1] + 1, len(FACTS)), np.float32)
        )
        self._head = _weights_of(network.action_net)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """float32[rows, OBSERVATION_SIZE] -> logits float32[rows, 83], illegal actions' among them."""
        logits = np.empty((len(observations), NUM_ACTIONS), np.float32)
        if self._sees_facts:
            actions, facts = card_facts(observations)
        else:
            actions = np.empty((len(observations), 0), np.uint8)
            facts = np.empty((len(observations), 0, len(FACTS)), np.float32)
        _forward(observations, actions, facts, self._sizes, self._layers, self._weighing, self._head, logits)
        return logits


def _weights_of(layer: nn.Linear) -> np.ndarray:
    """Its weights and biases: float32 (inputs + 1, outputs), biases last."""
    return np.ascontiguousarray(th.cat([layer.weight.detach().T, layer.bias.detach()[None]]).float().cpu().numpy())
