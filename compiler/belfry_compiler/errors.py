"""How a compile fails: a kind that machines test, a message that people read, and an exit code per kind."""

from __future__ import annotations

# Documented in compiler/README.md; belfryd and scripts test them.
EXIT_CODES: dict[str, int] = {
    "bad_options": 2,
    "bad_model": 3,
    "uncompilable": 4,
    "tolerance": 5,
    "internal": 70,
}

# What the operator sees in `belfry show` stays readable.
_MESSAGE_LIMIT = 6000


class CompilerError(Exception):
    """A failure that is told to the caller as {"error": {"kind", "message"}}."""

    def __init__(self, kind: str, message: str) -> None:
        if kind not in EXIT_CODES:
            raise ValueError(f"unknown kind of error {kind!r}")
        super().__init__(message)
        self.kind = kind

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.kind]

    def to_json(self) -> dict[str, dict[str, str]]:
        return {"error": {"kind": self.kind, "message": shorten(str(self))}}


def shorten(text: str, limit: int = _MESSAGE_LIMIT) -> str:
    """Keeps the start and the end: compilers put the cause at the one and the effect at the other."""
    text = text.strip()
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
