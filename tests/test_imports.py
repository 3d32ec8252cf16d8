"""The house stays in order: imports run one way, the environment needs few packages, files stay readable."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Each module imports only from lines above its own.
FOOL_ENV_ORDER = [
    {"_jit", "errors"},
    {"cards"},
    {"rules"},
    {"rng"},
    {"state"},
    {"engine"},
    {"observation", "picture", "render", "rewards"},
    {"determinization"},
    {"game"},
    {"transcript"},
    {"fool_v0", "vector"},
    {"__init__"},
]
LINE_OF = {module: line for line, modules in enumerate(FOOL_ENV_ORDER) for module in modules}

FOOL_ENV_PACKAGES = {"numpy", "numba", "llvmlite", "gymnasium", "pettingzoo"}  # llvmlite comes with numba

FOLDERS = ["fool_env", "agents", "train", "tests", "benchmarks"]
MAX_LINES = 450


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def core() -> list[Path]:
    """The modules of fool_env itself."""
    return sorted((ROOT / "fool_env").glob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name under which a file of the checkout is imported: agents/arena.py is fool_env.agents.arena."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "fool_env" else ("fool_env", *parts))


def imported(path: Path) -> set[str]:
    """Dotted names of all that a file imports, wherever in the file; `from a import b` counts as a and as a.b."""
    package = module_name(path).split(".")[:-1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names |= {origin} | {f"{origin}.{alias.name}" for alias in node.names}
    return names


def third_party(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)} - sys.stdlib_module_names - {"fool_env"}


def imports_from(path: Path, package: str) -> bool:
    return any(name == package or name.startswith(package + ".") for name in imported(path))


@pytest.mark.parametrize("path", core(), ids=lambda path: path.stem)
def test_fool_env_imports_run_one_way(path: Path) -> None:
    assert path.stem in LINE_OF, f"give {path.name} its place in FOOL_ENV_ORDER"
    inside = {name.split(".")[1] for name in imported(path) if name.startswith("fool_env.")}
    wrong = {module for module in inside & LINE_OF.keys() if LINE_OF[module] >= LINE_OF[path.stem]}
    assert not wrong, f"{path.name} imports {wrong}, which may import it"


@pytest.mark.parametrize("path", core(), ids=lambda path: path.stem)
def test_fool_env_needs_no_learner_and_few_packages(path: Path) -> None:
    assert not imports_from(path, "fool_env.agents")
    assert not imports_from(path, "fool_env.train")
    assert third_party(path) <= FOOL_ENV_PACKAGES


@pytest.mark.parametrize("path", sources("agents", "fool_env/interop"), ids=lambda path: path.stem)
def test_agents_and_adapters_do_not_import_train(path: Path) -> None:
    assert not imports_from(path, "fool_env.train")


@pytest.mark.parametrize("path", sources("agents"), ids=lambda path: path.stem)
def test_agents_do_not_import_adapters(path: Path) -> None:
    assert not imports_from(path, "fool_env.interop")


@pytest.mark.parametrize("path", sources("agents", "train"), ids=lambda path: path.stem)
def test_kernels_call_only_kernels_that_their_cache_key_covers(path: Path) -> None:
    """The cache of compiled code is keyed on fool_env and the kernel's own folder, so no third folder may matter."""
    if "fool_env._jit.kernel" in imported(path):
        other = "fool_env.train" if path.parent.name == "agents" else "fool_env.agents"
        assert not imports_from(path, other)


def test_importing_agents_loads_neither_torch_nor_train() -> None:
    names = [
        module_name(path)
        for path in sources("agents")
        if path.stem not in ("__init__", "inference", "network", "neural")
    ]
    code = f"import sys, importlib; [importlib.import_module(name) for name in {names}]; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "stable_baselines3", "fool_env.train"} & set(result.stdout.split())


def test_no_script_hides_a_package() -> None:
    """The folder of a script comes first on sys.path: a train/random.py would be everybody's random."""
    taken = sys.stdlib_module_names | importlib.metadata.packages_distributions().keys()
    assert not {path.stem for path in sources("train", "benchmarks")} & taken


def test_files_stay_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources(*FOLDERS)}
    assert not {path: length for path, length in lengths.items() if length > MAX_LINES}
