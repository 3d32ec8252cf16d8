"""The README tells the truth: its code and commands run, its table and picture are what the code makes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fool_env import Game, Rules
from fool_env.observation import field_table

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()

# The README's runs, made short: the same commands with these options behind them.
SHORTER = {
    "train/ppo.py": "--total_steps 4096 --table.num_tables 32 --ppo.steps 32 --ppo.minibatch 256 --network.hidden [32] "
    "--evaluation.final_deals 10 --evaluation.final_games 2",
    "train/dmc.py": "--total_steps 4096 --table.num_tables 32 --dmc.steps 32 --dmc.minibatch 256 --network.hidden [32] "
    "--evaluation.final_deals 10 --evaluation.final_games 2",
    "train/best_response.py": "--steps 2048 --table.num_tables 32 --ppo.steps 32 --network.hidden [32] --deals 10 "
    "--seeds 0",
    "train/sweep.py": "--seeds 0 1 --total_steps 2048 --table.num_tables 32 --ppo.steps 32 --network.hidden [32] "
    "--evaluation.every 1024 --evaluation.deals 4 "
    "--evaluation.final_deals 10 --evaluation.final_games 0",
    "train/benchmark.py": "--count 4",
    "train/evaluate.py": "--deals 10 --games 2 --workers 1",
    "train/tournament.py": "--deals 4 --games 2 --pair-deals 2",
    "fool_env.agents": "",
}


def blocks(language: str) -> list[str]:
    """The code blocks of one language, "" for those that name none."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return [code for name, code in fenced if name == language]


def commands() -> list[str]:
    lines = [line.split(" #")[0].strip() for block in blocks("") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the checkout and may be written into."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("train", "configs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_python_code_runs(tmp_path: Path) -> None:
    outputs = []
    for code in blocks("python"):
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) <= 26
        command = [sys.executable, "-W", "error", "-c", code]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout)
    assert "(1024, 83)" in outputs[0]
    assert "to play" in outputs[-1]


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert capsys.readouterr().out


def test_python_commands_run_in_their_order(checkout: Path) -> None:
    ran = set()
    for command in commands():
        program, *arguments = shlex.split(command)
        if program != "python":
            continue
        script = arguments[1 if arguments[0] == "-m" else 0]
        shorter = "" if "--resume" in arguments else SHORTER[script]
        result = subprocess.run(
            [sys.executable, *arguments, *shlex.split(shorter)], cwd=checkout, capture_output=True, text=True
        )
        assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
        ran.add(script)
    assert ran == SHORTER.keys()
    assert (checkout / "runs" / "6p" / "final.zip").is_file()


def test_other_commands_are_those_of_this_project() -> None:
    others = [command for command in commands() if not command.startswith("python ")]
    assert others == ["make train", "make test", "pip install -e '.[train]'"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}

    def would_run(target: str) -> str:
        command = ["make", "--dry-run", "--no-print-directory", target]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert "train/ppo.py --config configs/6p.yaml" in would_run("train")
    assert all(tool in would_run("test") for tool in ("ruff format --check", "ruff check", "mypy", "pytest"))


def test_files_that_it_links_to_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    missing = [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
    assert not missing


def test_observation_table_is_that_of_the_dtype() -> None:
    table = README.split("fool_env.observation.field_table() -->\n")[1].split("\n<!--")[0]
    assert table == field_table(), "paste the output of fool_env.observation.field_table() into README.md"


def picture() -> str:
    """The table in the README: some plays into a game of six."""
    game = Game(Rules.official(6), seed=7)
    while not (len(game.history) > 36 and game.fools and len(game.trick) == 3):
        game.play(game.legal_actions()[-1])
    return game._repr_svg_()


def test_picture_is_what_the_code_draws() -> None:
    assert (ROOT / "docs" / "table.svg").read_text() == picture(), "python tests/test_readme.py draws it anew"


if __name__ == "__main__":
    (ROOT / "docs" / "table.svg").write_text(picture())
