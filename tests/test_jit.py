"""The cache of compiled code: it notices every edit and works where numba's own does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import numpy as np
import pytest

import fool_env._jit as jit

JIT_SOURCE = Path(jit.__file__)

SMALL_PACKAGE = {
    "__init__.py": "",
    "constants.py": "STEP = 1\n",
    "kernels.py": """
        from fool_env._jit import kernel
        from fool_env.constants import STEP

        @kernel
        def advance(x):
            return x + STEP
        """,
    "agents/__init__.py": "",
    "agents/taste.py": "BONUS = 100\n",
    "agents/bot.py": """
        from fool_env._jit import kernel
        from fool_env.agents.taste import BONUS
        from fool_env.kernels import advance

        @kernel
        def choose(x):
            return advance(x) + BONUS
        """,
    "__main__.py": """
        import numba
        from fool_env.agents.bot import choose
        from fool_env.kernels import advance

        stats = choose.stats
        print(choose(0), advance(0), sum(stats.cache_hits.values()), numba.config.CACHE_DIR or "unset")
        """,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package named fool_env with this project's `_jit.py` and two kernels, one in a folder of its own."""
    package = tmp_path / "site" / "fool_env"
    for name, source in SMALL_PACKAGE.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    shutil.copy(JIT_SOURCE, package)
    return package


def start(package: Path, *options: str, **environment: str | None) -> subprocess.Popen[str]:
    """Run the small package; `environment` sets variables, and takes away those given as None."""
    cleared = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "XDG_CACHE_HOME", "PYTHONPATH")
    variables = {name: value for name, value in os.environ.items() if name not in cleared}
    variables |= {"HOME": str(package.parents[1] / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    for name, value in environment.items():
        variables.pop(name, None) if value is None else variables.update({name: value})
    command = [sys.executable, *options, "-m", "fool_env"]
    return subprocess.Popen(
        command, cwd=package.parent, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(package: Path, *options: str, **environment: str | None) -> list[str]:
    """The four words that the small package prints: choose(0), advance(0), cache hits, numba's setting."""
    process = start(package, *options, **environment)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.split()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_second_process_loads_what_the_first_compiled(package: Path) -> None:
    assert run(package) == ["101", "1", "0", "unset"]
    assert run(package) == ["101", "1", "1", "unset"]
    assert (package.parents[1] / "home").is_dir()
    assert not list(package.rglob("*.nbc")), "the cache lies in the package, where uninstalling would leave it"


def test_edited_constant_of_another_module_is_noticed(package: Path) -> None:
    run(package)
    edit(package / "constants.py", "1", "2")
    assert run(package)[:2] == ["102", "2"]


def test_edited_constant_of_another_module_in_the_kernels_own_folder_is_noticed(package: Path) -> None:
    run(package)
    edit(package / "agents" / "taste.py", "100", "200")
    assert run(package)[:2] == ["201", "1"]


def test_numba_cache_dir_is_used_when_set(package: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    run(package, NUMBA_CACHE_DIR=str(chosen))
    assert list(chosen.rglob("*.nbc"))
    assert not (tmp_path / "home").exists()


def test_xdg_cache_home_is_used_when_set(package: Path, tmp_path: Path) -> None:
    run(package, XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert list((tmp_path / "xdg" / "fool_env").rglob("*.nbc"))
    assert not (tmp_path / "home").exists()


def test_falls_back_to_a_private_temporary_folder_without_a_usable_home(package: Path, tmp_path: Path) -> None:
    not_a_folder = tmp_path / "file"
    not_a_folder.touch()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run(package, HOME=str(not_a_folder), TMPDIR=str(temporary))
    assert run(package, HOME=str(not_a_folder), TMPDIR=str(temporary))[2] == "1"
    (folder,) = temporary.glob("fool_env-*")
    assert folder.stat().st_mode & 0o077 == 0


def test_without_a_home_folder_only_the_temporary_one_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(jit.os.path, "expanduser", lambda path: path)  # as for a user without HOME or passwd entry
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    assert [base.parent for base in jit._bases()] == [tmp_path]


def test_a_temporary_folder_that_others_may_write_to_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"fool_env-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert jit._private_temporary_folder() is None
    folder.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    assert jit._private_temporary_folder() is None


def test_read_only_package_without_home_runs(package: Path, tmp_path: Path) -> None:
    for path in [*package.rglob("*"), package]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        # Root may write into it all the same, so what counts is that nothing was written.
        assert run(package, HOME=None, XDG_CACHE_HOME=str(tmp_path / "cache"))[:2] == ["101", "1"]
        assert not list(package.rglob("*.nb[ci]"))
    finally:
        for path in [package, *(path for path in package.rglob("*") if path.is_dir())]:
            path.chmod(0o755)


def test_without_any_cache_folder_it_warns_once_and_runs(package: Path, tmp_path: Path) -> None:
    edit(package / "_jit.py", "for base in _bases():", "for base in ():")
    process = start(package)
    output, errors = process.communicate(timeout=120)
    assert output.split()[:2] == ["101", "1"]
    assert "set NUMBA_CACHE_DIR to a folder that you may write to" in errors
    assert errors.count("RuntimeWarning") == 2, "once for each folder of kernels"


def test_two_cold_processes_at_once(package: Path) -> None:
    processes = [start(package), start(package)]
    outputs = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [output[:2] for output in outputs] == [["101", "1"]] * 2
    assert run(package)[2] == "1"


def test_plain_python_gives_the_same_and_wraps_without_a_warning(package: Path) -> None:
    edit(
        package / "kernels.py",
        "x + STEP",
        "np.uint64(x) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(2**64 - 1 - 2 * STEP)",
    )
    edit(package / "kernels.py", "from fool_env._jit", "import numpy as np\nfrom fool_env._jit")
    edit(package / "agents" / "bot.py", "advance(x) + BONUS", "advance(x + BONUS)")
    edit(package / "__main__.py", "stats = choose.stats\n", "")
    edit(package / "__main__.py", "sum(stats.cache_hits.values())", "type(choose).__name__")
    compiled = run(package, "-W", "error")
    plain = run(package, "-W", "error", NUMBA_DISABLE_JIT="1")
    assert compiled[:2] == plain[:2]
    assert plain[2] == "function"


@jit.kernel
def _twice(x: int) -> int:
    return 2 * x


def test_kernels_release_the_gil_and_keep_ieee_arithmetic() -> None:
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    assert _twice(21) == 42
    assert _twice.targetoptions["nogil"] is True  # type: ignore[attr-defined]
    assert not _twice.targetoptions.get("fastmath")  # type: ignore[attr-defined]
    assert isinstance(np.int64(_twice(1)), np.int64)
