"""`python -m belfry_compiler`: see cli.py."""

import sys

from belfry_compiler.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
