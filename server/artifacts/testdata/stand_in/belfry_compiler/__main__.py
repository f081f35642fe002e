"""Speaks the contract of compiler/README.md; the first word of the "model" says how it behaves."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def fail(kind: str, message: str, code: int) -> NoReturn:
    say({"error": {"kind": kind, "message": message}})
    sys.exit(code)


def write_artifact(out: Path, key: str, fields: dict[str, Any], payload: bytes) -> None:
    (out / "data").mkdir(parents=True)
    (out / "data" / "code.bin").write_bytes(payload)
    tensor = {"dtype": "FP32", "shape": ["batch", 2], "batch_axis": 0}
    manifest = {
        "format": 1,
        "key": key,
        "key_fields": fields,
        "target": fields["target"],
        "inputs": [{"name": "x", **tensor, "pad": 0}],
        "outputs": [{"name": "output", **tensor}],
        "symbols": {"batch": {"min": 1, "max": 64}},
        "batch": {"batchable": True, "reason": "", "symbol": "batch", "fixed": 0},
        "files": [{"path": "data/code.bin", "sha256": hashlib.sha256(payload).hexdigest(), "bytes": len(payload)}],
        "entry": {"kind": "aoti", "path": "data/code.bin"},
        "report": {
            "seconds": 0.1,
            "stages": [],
            "kernels": 1,
            "fallbacks": [],
            "numerics": {"max_abs": 0, "max_rel": 0, "worst": "output", "rtol": 0, "atol": 0, "checked": []},
            "rows": {"checked": True, "independent": True, "detail": ""},
            "deterministic": {"checked": False, "size": 0},
        },
    }
    (out / "manifest.json").write_text(json.dumps(manifest))


def spawn_sleepers(note: Path) -> None:
    """Children that leave the group and the session, and a grandchild whose parent is gone."""
    sleep = ["sleep", "1000"]
    pids = [subprocess.Popen(sleep).pid, subprocess.Popen(sleep, start_new_session=True).pid]
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen(sleep, start_new_session=True)
        os._exit(0)
    os.wait()
    note.write_text(" ".join(map(str, pids)))


def compile_model(parsed: argparse.Namespace) -> None:
    words = parsed.model.read_text().split()
    mode, rest = words[0], words[1:]
    note = Path(str(parsed.model) + ".note")
    if parsed.key_fields is not None:
        fields = json.loads(parsed.key_fields.read_text())
    else:
        fields = {
            "model_sha256": hashlib.sha256(parsed.model.read_bytes()).hexdigest(),
            "target": parsed.target,
            "options": json.loads(parsed.options.read_text()),
            **{name: value for name, value in DESCRIPTION.items() if name != "targets"},
            "driver": "cpu/1",
        }
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        parsed.key = hashlib.sha256(text.encode()).hexdigest()
    with (parsed.model.parent / "compiles").open("a") as stream:
        stream.write("x")
    say({"stage": "load", "seconds": 0.0})
    print("words for people", file=sys.stderr, flush=True)
    if mode == "fail":
        fail(rest[0], " ".join(rest[1:]), 4)
    if mode == "garbage":
        sys.stdout.write("\x00\xff{not json\n" + "y" * 200_000 + "\n[1, 2]\n{}\n")
    if mode == "exit":
        print("it ends here", file=sys.stderr)
        sys.exit(int(rest[0]))
    if mode == "signal":
        os.kill(os.getpid(), int(rest[0]))
        time.sleep(1000)
    if mode == "abort":
        os.abort()
    if mode == "memory":
        hog = []
        while True:
            hog.append(b"x" * (8 << 20))
    if mode == "memory-tree":  # each child within its limit, all together not
        children = [
            subprocess.Popen([sys.executable, "-c", "import time; x = b'x' * (48 << 20); time.sleep(1000)"])
            for _ in range(8)
        ]
        for child in children:
            child.wait()
    if mode == "hang":
        spawn_sleepers(note)
        say({"stage": "inductor", "seconds": 0.1})
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    if mode == "wait":  # until the test says go
        say({"stage": "inductor", "seconds": 0.1})
        while not (parsed.model.parent / "go").exists():
            time.sleep(0.02)
    if mode == "leave":  # a child that outlives a good compile
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if mode == "environment":
        note.write_text(json.dumps({**os.environ, "nice": os.nice(0), "cwd": os.getcwd(), "stdin": sys.stdin.read()}))
    key, payload = parsed.key, mode.encode() * int(rest[0] if mode == "size" else 10)
    write_artifact(parsed.out, key, fields, payload)
    if mode == "torn":
        (parsed.out / "data" / "code.bin").write_bytes(b"short")
    if mode == "extra":
        (parsed.out / "stray").write_bytes(b"not listed")
    if mode == "changed":
        parsed.model.write_text("another model")
    if mode == "wrong-key":
        key = "0" * 64
    if mode != "silent":
        say({"done": {"key": key, "seconds": 0.1}})


DESCRIPTION = {"compiler": "stand-in/1", "torch": "9.9.9", "arch": "any", "isa": "default", "targets": ["cpu"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("describe")
    compile_ = commands.add_parser("compile")
    compile_.add_argument("model", type=Path)
    compile_.add_argument("--target")
    compile_.add_argument("--out", type=Path)
    compile_.add_argument("--options", type=Path)
    compile_.add_argument("--key")
    compile_.add_argument("--key-fields", type=Path)
    compile_.add_argument("--isa")
    compile_.add_argument("--threads", type=int)
    parsed = parser.parse_args()
    if parsed.command == "describe":
        say(DESCRIPTION)
    else:
        compile_model(parsed)


main()
