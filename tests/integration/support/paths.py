"""Where the things under test lie."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BELFRY_BUILD", ROOT / "build")).resolve()
BIN = BUILD / "bin"
COMPILER_DIR = ROOT / "compiler"
# The interpreter that runs the tests has torch: it compiles too.
PYTHON = sys.executable
# Sample models and compiled artifacts are made once and used by every test.
SAMPLES = Path(os.environ.get("BELFRY_SAMPLES", BUILD / "samples")).resolve()
CACHE = Path(os.environ.get("BELFRY_TEST_CACHE", BUILD / "test-cache")).resolve()
