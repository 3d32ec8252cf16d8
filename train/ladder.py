"""The ladder: how the network fares against fixed opponents, on the way and in the end, as `ladder.json`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fool_env.agents.arena import REPORT, SELECTION, evaluate, make_opponents
from fool_env.agents.network import PolicyNetwork
from fool_env.agents.neural import GREEDY, NeuralAgent
from fool_env.train.checkpoint import Learner, write_whole
from fool_env.train.config import RunConfig
from fool_env.train.provenance import source_commit
from fool_env.train.stages import stage_at

Results = list[dict[str, Any]]
Show = Callable[[str], None]


def agent_of(model: Learner, config: RunConfig, name: str = "network") -> NeuralAgent:
    """The network as it is now, as the agent that its checkpoint will be, on the CPU in float32."""
    network = PolicyNetwork.from_policy(config.network.kind, config.network.hidden, model.policy.state_dict())
    episode, greedy = stage_at(config, model.num_timesteps).episode, config.choice == GREEDY
    return NeuralAgent(network, config.table.make_rules(), episode, name, deterministic=greedy)


class Ladder:
    """The evaluations of a run, kept in a file that is whole at all times.

    Deals on the way and deals of the report differ (SELECTION and REPORT of the arena), and neither is trained on.

    Args:
        path: the file.
        config: of the run.
        steps: where the run stands: what the file holds of later steps is forgotten.
    """

    def __init__(self, path: Path, config: RunConfig, steps: int) -> None:
        self.path = path
        self.config = config
        known = json.loads(path.read_text())["history"] if path.exists() else []
        self.history: list[dict[str, Any]] = [entry for entry in known if entry["steps"] <= steps]

    def climb(self, model: Learner, show: Show) -> Results:
        """Evaluate on the way; `show` is told how far the evaluation is."""
        evaluation = self.config.evaluation
        results = self._evaluate(agent_of(model, self.config), SELECTION, evaluation.deals, evaluation.games, show)
        self.history.append({"steps": model.num_timesteps, "results": results})
        self._write({"results": []})
        return results

    def report(self, model: Learner, name: str, show: Show) -> Results:
        """Evaluate at the end; `name` is the agent's, its checkpoint."""
        evaluation = self.config.evaluation
        agent = agent_of(model, self.config, name)
        results = self._evaluate(agent, REPORT, evaluation.final_deals, evaluation.final_games, show)
        self._write(
            {
                "agent": name,
                "rules": [rules.to_dict() for rules in agent.rules],
                "deals": evaluation.final_deals,
                "games": evaluation.final_games,
                "seed": _SEED,
                "sampling": not agent.deterministic,
                "commit": source_commit(),
                "results": results,
            }
        )
        return results

    def _evaluate(self, agent: NeuralAgent, purpose: int, deals: int, games: int, show: Show) -> Results:
        results = []
        for rules, opponent in itertools.product(agent.rules, self.config.evaluation.opponents):
            table = opponent if len(agent.rules) == 1 else f"{opponent}, {rules.num_players} players"

            def progress(done: float, total: int, table: str = table) -> None:
                show(f"evaluation at a table of {table}: {done / total:.0%}")

            evaluation = evaluate(
                agent,
                make_opponents(opponent),
                rules,
                deals=deals,
                games=games,
                seed=_SEED,
                purpose=purpose,
                progress=progress,
            )
            results.append({"table": table, "players": rules.num_players, **evaluation.to_dict()})
        return results

    def _write(self, report: dict[str, Any]) -> None:
        write_whole(self.path, json.dumps({**report, "history": self.history}, indent=2).encode())


_SEED = 0  # equal deals for all runs, so that runs can be compared


def in_lines(results: Results) -> list[str]:
    """Points a round at each opponent's table, and in brackets the gain over the opponent's own and the games won.

    A line for each number of players, which it begins with if there are several.
    """
    by_players: dict[int, list[str]] = {}
    for result in results:
        gain = [] if result["gain"] is None else [f"{result['gain']:+.1f}"]
        wins = [] if result["wins"] is None else [f"{result['wins']:.0%} won"]
        brackets = f" ({', '.join(gain + wins)})" if gain + wins else ""
        by_players.setdefault(result["players"], []).append(f"{result['opponent']} {result['points']:+.1f}{brackets}")
    if len(by_players) == 1:
        return [", ".join(words) for words in by_players.values()]
    return [f"{players} players: {', '.join(words)}" for players, words in by_players.items()]
