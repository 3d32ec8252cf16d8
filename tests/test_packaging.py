"""The wheel, built from an sdist and installed into a fresh environment, away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKED = ["pyproject.toml", "README.md", "LICENSE", "fool_env", "agents", "train", "configs"]


def command(*arguments: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    result = subprocess.run(list(map(str, arguments)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, f"{arguments} exited with {result.returncode}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the sources, since a build leaves files in the folder where it runs."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "sources"
    copy.mkdir()
    for name in PACKED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    command(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", copy, cwd=folder)
    (path,) = (folder / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment with the wheel; what it depends on is borrowed from the running one."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv", symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")})
    scripts = Path(paths["scripts"])
    pip = [sys.executable, "-m", "pip", "--python", scripts / "python", "install", "--quiet", "--no-index", "--no-deps"]
    command(*pip, wheel, cwd=folder)
    (Path(paths["purelib"]) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return scripts


def test_wheel_has_one_top_level_module(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"fool_env"}


def test_wheel_holds_every_source_and_configuration(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = ("agents", "agents/pretrained", "train", "configs")
    homes = {"fool_env": "fool_env", **{folder: f"fool_env/{folder}" for folder in folders}}
    modules = {f"{home}/{path.name}" for folder, home in homes.items() for path in (ROOT / folder).glob("*.py")}
    configurations = {f"fool_env/configs/{path.name}" for path in (ROOT / "configs").glob("*.yaml")}
    pretrained = {
        f"fool_env/agents/pretrained/{path.name}"
        for path in (ROOT / "agents" / "pretrained").iterdir()
        if path.suffix in (".zip", ".md")
    }
    assert configurations
    assert modules | configurations | pretrained | {"fool_env/py.typed"} <= names


def test_import_of_the_environment_is_light(installed: Path, tmp_path: Path) -> None:
    code = "import fool_env, sys; print(fool_env.__file__); print(*sys.modules)"
    origin, modules = command(installed / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(origin).is_relative_to(installed.parent)
    heavy = {"torch", "stable_baselines3", "sb3_contrib", "jsonargparse", "rich", "tensorboard", "matplotlib"}
    assert not (heavy | {"fool_env.agents", "fool_env.train"}) & set(modules.split())


def test_configurations_are_found_once_installed(installed: Path, tmp_path: Path) -> None:
    code = "import importlib.resources as r; print(*(path.name for path in r.files('fool_env.configs').iterdir()))"
    names = set(command(installed / "python", "-c", code, cwd=tmp_path).split())
    assert {path.name for path in (ROOT / "configs").glob("*.yaml")} <= names


def test_shipped_agents_are_found_once_installed(installed: Path, tmp_path: Path) -> None:
    code = """
from fool_env.agents.agent import make_agent
from fool_env.agents.shipped import SHIPPED_FOLDER, shipped_names
print(SHIPPED_FOLDER, *(make_agent("pretrained:" + name).name for name in shipped_names()))
"""
    folder, *names = command(installed / "python", "-c", code, cwd=tmp_path).split()
    assert Path(folder).is_relative_to(installed.parent)
    assert names == sorted(f"pretrained:{path.stem}" for path in (ROOT / "agents" / "pretrained").glob("*.zip"))


@pytest.mark.parametrize(
    "script",
    [
        "fool-train",
        "fool-evaluate",
        "fool-tournament",
        "fool-benchmark",
        "fool-sweep",
        "fool-dmc",
        "fool-best-response",
    ],
)
def test_console_scripts_run(installed: Path, script: str, tmp_path: Path) -> None:
    assert "usage:" in command(installed / script, "--help", cwd=tmp_path)


def test_one_version_everywhere(wheel: Path) -> None:
    version = wheel.name.split("-")[1]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()
