"""FOOL for PettingZoo: `env()` and `raw_env()` of the AEC API.

There is no parallel env: the game is turn-based, one seat acts at a time, and a parallel env would have the others
act on observations that are no longer true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from ._jit import kernel
from .cards import NUM_ACTIONS
from .game import Game
from .observation import encode_hands, observation_space, state_space
from .render import RENDER_MODES, checked_render_mode
from .rewards import pay, reward_code
from .rng import checked_seed, derive
from .rules import MAX_PLAYERS, Rules, chosen_rules
from .state import checked_episode, copy_games
from .transcript import Transcript

_NO_ACTION = np.zeros(NUM_ACTIONS, np.int8)


@kernel
def _hands(games: np.ndarray, seat: int, hands: np.ndarray) -> None:
    encode_hands(games[0], seat, hands)


@kernel
def _pay(games: np.ndarray, reward: int, paid: np.ndarray) -> None:
    pay(games[0], reward, paid)


def env(
    num_players: int | None = None,
    rules: Rules | None = None,
    episode: str = "game",
    reward: str = "points",
    render_mode: str | None = None,
) -> AECEnv[str, dict[str, np.ndarray], int]:
    """`raw_env` behind PettingZoo's check of the order of calls; the arguments are those of `raw_env`."""
    return OrderEnforcingWrapper(raw_env(num_players, rules, episode, reward, render_mode))


class raw_env(AECEnv[str, dict[str, np.ndarray], int]):  # type: ignore[misc]  # noqa: N801 - PettingZoo: untyped, its name
    """The agents are "player_0" and so on, one for each seat; `agent_selection` is the seat to act.

    A Fool is passed over by `agent_selection` for a trick, not terminated; all agents end together, and each gets
    its last reward once. Observations are `{"observation": float32 (OBSERVATION_SIZE,), "action_mask": int8 (83,)}`,
    and `infos[agent]["action_mask"]` is the mask again: that of an agent who is not to act is all zeros.
    An illegal action raises `IllegalActionError` and changes nothing.

    Args:
        num_players: seats at the table, 4 to 8 for the official rules; 6 unless `rules` say otherwise.
        rules: any `Rules`; official ones for `num_players` if not given.
        episode: "game" (R14) or "round".
        reward: "points" of a round as it ends (R13), "relative" (these minus the mean of the other seats'), or "win"
            (1/k to each of k winners as the game ends, R15).
        render_mode: "human" prints the table as the seat to act sees it, "ansi" returns it; None renders nothing.

    Raises:
        RulesError: `num_players` and `rules` disagree, or there are no official rules for `num_players`.
        ValueError: an episode, reward or render mode that there is none of.
    """

    metadata = {  # noqa: RUF012 - PettingZoo's interface has it as a plain class attribute
        "name": "fool_v0",
        "render_modes": list(RENDER_MODES),
        "is_parallelizable": False,
        "render_fps": 1,
    }

    def __init__(
        self,
        num_players: int | None = None,
        rules: Rules | None = None,
        episode: str = "game",
        reward: str = "points",
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        rules = chosen_rules(num_players, rules)
        self.rules = rules
        self.episode = checked_episode(episode)
        self.reward = reward
        self._reward_code = reward_code(reward, episode)
        self.render_mode = checked_render_mode(render_mode)
        self.possible_agents = [f"player_{seat}" for seat in range(rules.num_players)]
        self._seat_of = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self.observation_spaces = {
            agent: spaces.Dict(
                observation=observation_space(), action_mask=spaces.Box(0, 1, (NUM_ACTIONS,), dtype=np.int8)
            )
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents}
        self.state_space = state_space()
        self._paid = np.zeros(MAX_PLAYERS, np.float32)
        self._master: np.uint64 | None = None
        self._episodes = 0

    def observation_space(self, agent: str) -> spaces.Dict:
        """The same space object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """The same space object at every call: `Discrete(83)`."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode: of this seed, or the next of those that follow from the last seed given.

        Args:
            seed: 0 to 2**64 - 1: the episode is that of `Game(rules, seed)`.
            options: `"hands"` (cards for each seat, as names or ids) and `"dealer"` (a seat) replace those that the
                seed gives, for the first round; other keys are left alone.

        Raises:
            RulesError: the hands are not a deal of the rules' deck, or there is no such dealer.
        """
        master, episodes = self._master, self._episodes
        if seed is not None or master is None:
            master, episodes = checked_seed(seed), 0
        game_seed = master if episodes == 0 else np.uint64(derive(master, episodes))
        game = Game(self.rules, int(game_seed), self.episode)
        options = options or {}
        if "hands" in options or "dealer" in options:
            game.redeal(options.get("hands", game.hands), options.get("dealer", game.dealer))
        self._master, self._episodes = master, episodes + 1
        self._game_seed = None if "hands" in options or "dealer" in options else int(game_seed)
        self._finished_rounds: list[np.ndarray] = []
        self.game = game
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"action_mask": _NO_ACTION.copy()} for agent in self.agents}
        self._skip_agent_selection = None  # PettingZoo's memory of an episode that was left while its agents ended
        self._just_paid = False
        self._select(self.agents[0], game.player)
        if self.render_mode == "human":
            self.render()

    def step(self, action: int | None) -> None:
        """Play a card for `agent_selection`, or None for an agent whose episode is over.

        Raises:
            IllegalActionError: the rules forbid it now; nothing has changed.
            ValueError: an action other than None for an agent whose episode is over.
        """
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.game.play(action)  # type: ignore[arg-type]  # None raises, as it should
        self._cumulative_rewards[agent] = 0.0
        if self._just_paid:
            self._clear_rewards()
            self._just_paid = False
        player = self.game.player
        if player is None:
            player = self._finish_round()
        self._select(agent, player)
        if self.render_mode == "human":
            self.render()

    def _finish_round(self) -> int | None:
        """Pay all seats at once, and deal again or end the episode; returns the seat to act, if there is one."""
        _pay(self.game._games, self._reward_code, self._paid)
        for agent, reward in zip(self.agents, self._paid.tolist(), strict=False):
            self.rewards[agent] = reward
        self._accumulate_rewards()
        self._just_paid = True
        self._finished_rounds.append(copy_games(self.game._games))
        if self.game.game_over:
            self.terminations = dict.fromkeys(self.agents, True)
        else:
            self.game.next_round()
        return self.game.player

    def _select(self, last_agent: str, player: int | None) -> None:
        """Point at the seat to act, or at the first of the agents that end, and move the mask there."""
        self.infos[last_agent] = {"action_mask": _NO_ACTION.copy()}
        self.agent_selection = self.agents[0 if player is None else player]
        if player is not None:
            self.infos[self.agent_selection] = {"action_mask": self.game.action_mask()}

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """What an agent sees now, whether or not it is to act."""
        info = self.infos.get(agent)
        mask = _NO_ACTION if info is None else info["action_mask"]
        return {"observation": self.game.observation(self._seat_of[agent]), "action_mask": mask.copy()}

    def state(self) -> np.ndarray:
        """The full information: the observation of the seat to act, then every hand as seen from there.

        Once the episode is over, that of the last trick's winner. float32 of shape (STATE_SIZE,), see `state_space`.
        """
        game = self.game
        seat = game.leader if game.player is None else game.player
        hands = np.empty((MAX_PLAYERS, NUM_ACTIONS), np.float32)
        _hands(game._games, seat, hands)
        return np.concatenate([game.observation(seat), hands.reshape(-1)])

    def render(self) -> str | None:
        """The table as the seat to act sees it: printed in mode "human", returned in mode "ansi"."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() does nothing without a render_mode: env(render_mode="human") prints')
            return None
        text = str(self.game)
        if self.render_mode == "ansi":
            return text
        print(text, end="\n\n")
        return None

    def transcript(self, agents: Sequence[str] | None = None) -> Transcript:
        """The episode so far; of a wrapped env, `env.unwrapped.transcript()`. It has no seed if `reset` set the deal.

        Args:
            agents: who plays, a name for each seat.

        Raises:
            TranscriptError: not a name for each seat.
        """
        under_way = [] if self.game.round_over else [self.game._games]
        return Transcript.from_rounds(np.concatenate(self._finished_rounds + under_way), self._game_seed, agents)

    def close(self) -> None:
        """Nothing to release."""
