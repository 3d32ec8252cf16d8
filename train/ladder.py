"""The ladder: how the network fares against fixed opponents, on the way and in the end, as `ladder.json`."""

from __future__ import annotations

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
        results = self._evaluate(agent_of(model, self.config), SELECTION, self.config.evaluation.deals, 0, show)
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
                "players": agent.rules.num_players,
                "rules": agent.rules.to_dict(),
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
        for opponent in self.config.evaluation.opponents:

            def progress(done: float, total: int, opponent: str = opponent) -> None:
                show(f"evaluation at a table of {opponent}: {done / total:.0%}")

            evaluation = evaluate(
                agent,
                make_opponents(opponent),
                agent.rules,
                deals=deals,
                games=games,
                seed=_SEED,
                purpose=purpose,
                progress=progress,
            )
            results.append(evaluation.to_dict())
        return results

    def _write(self, report: dict[str, Any]) -> None:
        write_whole(self.path, json.dumps({**report, "history": self.history}, indent=2).encode())


_SEED = 0  # equal deals for all runs, so that runs can be compared


def in_one_line(results: Results) -> str:
    """Points a round at each opponent's table, and in brackets the gain over the opponent's own."""
    return ", ".join(
        f"{result['opponent']} {result['points']:+.1f}"
        + ("" if result["gain"] is None else f" ({result['gain']:+.1f})")
        for result in results
    )
