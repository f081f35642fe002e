"""Fetches a source distribution with pip and reads one file out of it, without installing anything."""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from sample.problem import Problem


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def source_distribution(name: str, version: str, checksum: str, cache: Path) -> Path:
    """The archive NAME-VERSION.tar.gz in `cache`, downloaded if it is not there or damaged.

    pip gets the checksum, and so refuses a changed archive before it looks into it.
    """
    archive = cache / f"{name}-{version}.tar.gz"
    if archive.is_file() and sha256(archive) == checksum:
        return archive
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(f"{name}=={version} --hash=sha256:{checksum}\n")
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
            "--require-hashes", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
            "--dest", folder, "--requirement", str(wanted),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        got = Path(folder) / archive.name
        if done.returncode != 0 or not got.is_file():
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
            raise Problem(
                f"cannot download {name} {version}: {errors[-1]} (without a package index, put {archive.name}, "
                f"sha256 {checksum}, into {cache})"
            )
        if sha256(got) != checksum:
            raise Problem(f"{archive.name}: sha256 is {sha256(got)}, expected {checksum}")
        got.replace(archive)
    return archive


def member(archive: Path, path: str, checksum: str) -> bytes:
    """One file of the archive, read in memory and checked."""
    with tarfile.open(archive) as tar:
        try:
            stream = tar.extractfile(path)
        except KeyError:
            stream = None
        if stream is None:
            raise Problem(f"{archive.name} holds no file {path}")
        data = stream.read()
    got = hashlib.sha256(data).hexdigest()
    if got != checksum:
        raise Problem(f"{path} in {archive.name}: sha256 is {got}, expected {checksum}")
    return data
