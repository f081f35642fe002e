"""The scripts put this folder on the path themselves; so do the tests."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# Before torch is loaded, as make.py does: tests share the machine with others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
