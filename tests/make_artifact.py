"""Compiles a small model for the C++ tests that need a real artifact: `make_artifact.py FOLDER`.

Made again only when the compiler has changed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from support.models import save, tiny


def main(folder: Path) -> None:
    compiler = [sys.executable, "-m", "belfry_compiler"]
    described = json.loads(subprocess.run([*compiler, "describe"], check=True, capture_output=True).stdout)
    manifest = folder / "manifest.json"
    if manifest.exists() and json.loads(manifest.read_text())["key_fields"]["compiler"] == described["compiler"]:
        return
    shutil.rmtree(folder, ignore_errors=True)
    model = save(folder.with_name(folder.name + "-model"), "tiny", tiny(seed=5, width=16))
    subprocess.run([*compiler, "compile", str(model), "--target", "cpu", "--out", str(folder)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
