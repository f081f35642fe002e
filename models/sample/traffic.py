"""What a replay needs to know of a model: rows to send, what eager answered to them, and which of them are positive.

Written as replay.npz when the model is made, so that a client can replay without torch and without the data's source.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass
class Traffic:
    """`inputs` and `eager` are arrays with the rows on the axis given for each in `axis`, 0 where it says nothing.

    `texts` instead of inputs: the client tokenises them itself.
    """

    output: str
    eager: np.ndarray  # rows on axis 0
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    axis: dict[str, int] = field(default_factory=dict)
    label: np.ndarray | None = None
    texts: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.eager)

    def take(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The inputs of one request."""
        return {n: np.ascontiguousarray(np.take(a, rows, self.axis.get(n, 0))) for n, a in self.inputs.items()}

    def save(self, path: Path) -> None:
        entries: dict[str, np.ndarray] = {"output": np.array(self.output), "eager": self.eager}
        for name, array in self.inputs.items():
            entries[f"inputs/{name}"] = array
            entries[f"axis/{name}"] = np.array(self.axis.get(name, 0))
        if self.label is not None:
            entries["label"] = self.label
        if self.texts:
            entries["texts"] = np.array(self.texts)
        np.savez_compressed(path, **entries)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> "Traffic":
        with np.load(path, allow_pickle=False) as file:
            names = [key.removeprefix("inputs/") for key in file.files if key.startswith("inputs/")]
            return cls(
                output=str(file["output"]),
                eager=file["eager"],
                inputs={n: file[f"inputs/{n}"] for n in names},
                axis={n: int(file[f"axis/{n}"]) for n in names},
                label=file["label"] if "label" in file.files else None,
                texts=[str(t) for t in file["texts"]] if "texts" in file.files else [],
            )
