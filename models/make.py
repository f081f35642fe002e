#!/usr/bin/env python3
"""Makes the sample models: DIR/NAME/1/{model.pt2,model.yaml,golden.npz,…}, which `belfryd --model-dir DIR` serves.

What is already made from the same sources with the same package versions is left alone. Exit codes: 0 done,
1 something is missing or failed (one line says what), 2 wrong usage.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# Before torch is loaded: with several threads, small models mostly wait for their own threads on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from sample.problem import Problem
from sample.recipe import RECIPES, Recipe


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "belfry" / "downloads"


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make.py",
        description="Make the sample models in the layout that belfryd --model-dir serves.",
        epilog="Models: " + ", ".join(RECIPES) + ". What is made already is left alone, unless --force.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to make (default: all)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where NAME/1/model.pt2 is to be")
    parser.add_argument("--force", action="store_true", help="make them again even if nothing changed")
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), metavar="DIR", help="downloads (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in RECIPES]
    if unknown:
        parser.error(f"unknown model: {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    return args


def make(recipe: Recipe, args: argparse.Namespace) -> None:
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{recipe.name}: [{time.monotonic() - started:5.1f} s] {line}", flush=True)

    if not args.force and recipe.made(args.out):
        say("is made already")
        return
    quality = recipe.make(args.out, args.cache, say)
    say("made: " + ", ".join(f"{name} {value:g}" for name, value in quality.items()))


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    try:
        for name in dict.fromkeys(args.names or RECIPES):
            make(RECIPES[name], args)
    except Problem as problem:
        print(f"make.py: {problem}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"make.py: {error}; see models/requirements.txt", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make.py: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
