"""Reads how many tests passed and failed from the output of ctest, pytest or ruff: `count.py LOG EXIT_CODE`.

Prints two numbers. A skipped test counts as a failure: whatever the tests need is installed before they run. So does an
exit code that is not 0 where the output tells of no failure, and a runner that ran nothing: a suite that silently
vanished must not look green.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def count(log: str, code: int) -> tuple[int, int]:
    if match := re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", log):
        # ctest counts a skipped test among those that passed.
        skipped = len(re.findall(r"^\s*\d+ - .*\(Skipped\)$", log, re.MULTILINE))
        failed, total = int(match[2]) + skipped, int(match[3])
        passed = total - failed
    else:
        # pytest's last line, such as "2 failed, 31 passed, 1 skipped in 4.2s".
        numbers = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)\b", last_line(log))}
        passed = numbers.get("passed", 0)
        failed = sum(numbers.get(word, 0) for word in ("failed", "error", "errors", "skipped"))
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
