"""Do rows see each other? (placeholder while the check is written)"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Rows:
    checked: bool = False
    independent: bool = True
    detail: str = ""
    deterministic: dict[str, Any] = field(default_factory=lambda: {"checked": False, "size": 0})

    def report(self) -> dict[str, Any]:
        return {"checked": self.checked, "independent": self.independent, "detail": self.detail}


def check_rows(program: Any, signature: Any, options: Any, sampler: Any, run: Any, numerics: Any) -> Rows:
    return Rows()
