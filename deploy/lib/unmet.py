"""Prints the requirements, NAME==VERSION or files of them, that this Python environment does not meet."""

import re
import sys
from importlib import metadata
from pathlib import Path

PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;#]+)")


def lines(argument: str) -> list[str]:
    path = Path(argument)
    return path.read_text().splitlines() if path.is_file() else [argument]


def unmet(line: str) -> bool:
    found = PIN.match(line.strip())
    if found is None:
        return False
    name, version = found.groups()
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return True
    # A local part ("2.13.0+cpu") names a build of the same version.
    return version not in (installed, installed.split("+")[0])


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for line in lines(argument):
            if unmet(line):
                print(line.split("#")[0].strip())
