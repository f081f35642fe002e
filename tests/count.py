"""Reads how many tests passed and failed from the output of ctest, pytest or ruff: `count.py LOG EXIT_CODE`.

Prints two numbers. An exit code that is not 0 counts as a failure even where the output tells of none, and a runner
that ran nothing is a failure too: a suite that silently vanished must not look green.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def count(log: str, code: int) -> tuple[int, int]:
    if match := re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", log):
        failed, total = int(match[2]), int(match[3])
        passed = total - failed
    else:
        # pytest's last line, such as "2 failed, 31 passed, 1 skipped in 4.2s".
        numbers = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|errors?)\b", last_line(log))}
        passed = numbers.get("passed", 0)
        failed = numbers.get("failed", 0) + numbers.get("error", 0) + numbers.get("errors", 0)
        if "All checks passed" in log:
            passed += 1
    if passed + failed == 0 or (code != 0 and failed == 0):
        failed += 1
    return passed, failed


def last_line(log: str) -> str:
    ends = re.compile(r"\b(passed|failed|error|errors) in\b|\bin \d+\.\d+s")
    lines = [line for line in log.splitlines() if ends.search(line)]
    return lines[-1] if lines else ""


if __name__ == "__main__":
    print(*count(Path(sys.argv[1]).read_text(errors="replace"), int(sys.argv[2])))
