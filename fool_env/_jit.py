"""`kernel`: compile a function with numba and cache the machine code where every edit of the sources is noticed.

Numba's own `cache=True` looks only at the file that defines a function: a constant edited in another module goes
unnoticed, and a read-only installation without a home folder cannot be imported at all. So each kernel's code lies in
`<base>/<digest>`, the digest covering every source file that the kernel may use: those of `fool_env` and those beside
the kernel itself. Any edit makes a new digest, and old folders may be deleted at any time.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

_TO_WRITE, _TO_L2, _DATA = 1, 2, 1  # the arguments of LLVM's prefetch

_PACKAGE = Path(__file__).resolve().parent
_cache_dir_lock = threading.Lock()


def kernel(function: F) -> F:
    """Compile `function` with numba: no Python objects, no GIL, machine arithmetic, the code cached on disk.

    A kernel may call the kernels of `fool_env` and those of its own folder, and should be called with one signature
    only: processes that compile different signatures of one kernel at the same time can spoil numba's cache.
    With `NUMBA_DISABLE_JIT=1` it runs as plain Python, in which integers then wrap as silently as in machine code.
    """
    if numba.config.DISABLE_JIT:
        return cast(F, _plain(function))
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    folder = _cache_folder(Path(function.__code__.co_filename).resolve().parent)
    if folder is not None:
        # Numba reads the setting once, here; other packages' functions keep their own cache folder.
        with _cache_dir_lock:
            before = numba.config.CACHE_DIR
            numba.config.CACHE_DIR = str(folder)
            try:
                dispatcher.enable_caching()
            finally:
                numba.config.CACHE_DIR = before
    return cast(F, dispatcher)


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0i8")
        builder.call(function, [address, number(_TO_WRITE), number(_TO_L2), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), emit


def _no_prefetch(array: np.ndarray, index: int) -> None:
    pass


# For kernels: ask for the cache line of array[index], which is about to be written; a hint that changes no result.
prefetch = _no_prefetch if numba.config.DISABLE_JIT else _prefetch


def _plain(function: F) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*args)

    return call


@functools.cache
def _cache_folder(kernel_folder: Path) -> Path | None:
    """The first usable cache folder for the kernels that lie in `kernel_folder`, or None, with a warning."""
    digest = _digest({_PACKAGE, kernel_folder})
    for base in _bases():
        folder = base / digest
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    warnings.warn(
        "fool_env finds no folder to cache compiled code in, so every process compiles it anew (some seconds); "
        "set NUMBA_CACHE_DIR to a folder that you may write to",
        RuntimeWarning,
        stacklevel=3,
    )
    return None


def _digest(folders: set[Path]) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(source for folder in folders for source in folder.glob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.parent.name}/{source.name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:20]


def _bases() -> Iterator[Path]:
    """Where cached code may lie, the best place first."""
    if numba.config.CACHE_DIR:  # NUMBA_CACHE_DIR
        yield Path(numba.config.CACHE_DIR)
    if sys.platform == "win32":
        user_cache = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        user_cache = os.path.expanduser("~/Library/Caches")
    else:
        user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(user_cache):  # not where there is no home folder, which leaves the "~"
        yield Path(user_cache) / "fool_env"
    if (temporary := _private_temporary_folder()) is not None:
        yield temporary


def _private_temporary_folder() -> Path | None:
    """A folder for this user alone: numba unpickles what it finds, so nobody else may have put anything there."""
    user = os.getuid() if hasattr(os, "getuid") else "user"  # on Windows the temporary folder is the user's own
    try:
        folder = Path(tempfile.gettempdir()) / f"fool_env-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    private = not folder.is_symlink() and (user == "user" or (status.st_uid == user and status.st_mode & 0o022 == 0))
    return folder if private else None
