"""Running the C++ compiler: parallel jobs, errors in its own words, nothing left running."""

from __future__ import annotations

import os
import subprocess
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from belfry_compiler.errors import CompilerError, shorten

COMPILER = "g++"


class Toolchain:
    """Runs at most 'jobs' compilers at a time. 'submit' from one thread; 'close' kills what still runs."""

    def __init__(self, jobs: int, compiler: str = COMPILER) -> None:
        self._compiler = compiler
        self._pool = ThreadPoolExecutor(max_workers=max(1, jobs), thread_name_prefix="c++")
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._closed = False

    def submit(self, folder: Path, arguments: list[str]) -> Future[None]:
        """Runs the compiler in 'folder', so that no path of this machine gets into what it makes."""
        return self._pool.submit(self._run, folder, arguments)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, folder: Path, arguments: list[str]) -> None:
        # A compiler's environment variables (CPATH, …) must not reach into the artifact.
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR", "HOME") if name in os.environ}
        command = [self._compiler, *arguments]
        with self._lock:
            if self._closed:
                raise CompilerError("internal", "the compile was ended")
            try:
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**environment, "LC_ALL": "C"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
            except OSError as error:
                text = f"cannot run the C++ compiler {self._compiler!r}: {error.strerror}; install it (Debian: g++)"
                raise CompilerError("internal", text) from None
            self._running.add(process)
        try:
            said, _ = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode != 0:
            source = next((part for part in arguments if part.endswith(".cpp")), "the shared object")
            how = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
            text = f"{self._compiler} failed on {source} ({how}):\n{shorten(said, 3000)}"
            raise CompilerError("uncompilable", text)
