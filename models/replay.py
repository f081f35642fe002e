#!/usr/bin/env python3
"""Replays the sample models' traffic against a running server, from concurrent clients, and tells how it went.

Exit codes: 0 all answered and right, 1 a request failed or an answer was wrong, 2 wrong usage, 3 something is missing
(one line says what).
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from replaying import judge, ready, report
from replaying.client import Tally, Task, prepare, run
from replaying.facts import CommandLine, Compile, Load, Metrics
from replaying.plan import ECHO
from sample.problem import Problem


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="replay.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models (default: all made ones, and echo)")
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="where make.py made the models")
    parser.add_argument("--server", default="127.0.0.1:8001", metavar="ADDR", help="inference (default: %(default)s)")
    parser.add_argument("--admin", default="127.0.0.1:8003", metavar="ADDR", help="for belfry (default: %(default)s)")
    parser.add_argument("--metrics", default="127.0.0.1:8002", metavar="ADDR", help="Prometheus (default: %(default)s)")
    parser.add_argument("--belfry", metavar="PROGRAM", help="the command-line client (default: the built one)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each model (default: %(default)g)")
    parser.add_argument("--requests", type=int, default=100_000, help="for each model at most (default: %(default)d)")
    parser.add_argument("--clients", type=int, default=8, help="requests under way at once (default: %(default)d)")
    parser.add_argument("--processes", type=int, default=2, help="client processes (default: %(default)d)")
    parser.add_argument("--timeout", type=float, default=30.0, help="of one request, seconds (default: %(default)g)")
    parser.add_argument("--wait", type=float, default=0.0, help="for the models to be READY, seconds")
    parser.add_argument("--max-error", type=float, default=1e-3, help="against eager (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of the requests' sizes (default: %(default)d)")
    parser.add_argument("--json", action="store_true", help="print JSON and not a table")
    args = parser.parse_args(argv)
    for option in ("seconds", "requests", "clients", "processes", "timeout"):
        if not getattr(args, option) > 0:
            parser.error(f"--{option} must be more than 0, got {getattr(args, option)}")
    args.processes = min(args.processes, args.clients)
    return args


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def chosen(args: argparse.Namespace) -> list[str]:
    made = sorted(path.parent.parent.name for path in args.models.glob("*/1/replay.npz"))
    names = list(dict.fromkeys(args.names or [*made, ECHO]))
    missing = [name for name in names if name not in (*made, ECHO)]
    if missing or (not made and ECHO not in names):
        raise Problem(f"not made in {args.models}: {', '.join(missing) or 'any model'}; run models/make.py first")
    return names


def replay(args: argparse.Namespace, pool: ProcessPoolExecutor, model: str, command: CommandLine | None) -> report.Row:
    golden_error, golden_faults = judge.golden_cases(args.server, args.models, model, args.timeout)
    before = Metrics.scrape(args.metrics)
    threads = -(-args.clients // args.processes)
    tasks = [
        Task(
            model, args.models, args.server, args.seed, args.seconds, 6 * args.seconds + 60, args.timeout,
            process, args.processes, threads, max(1, args.requests // args.processes),
        )
        for process in range(args.processes)
    ]  # fmt: skip
    tally = Tally()
    for part in pool.map(run, tasks):
        tally.add(part)
    after = Metrics.scrape(args.metrics)
    compiled = command.compile(model) if command and model != ECHO else Compile()
    row = judge.judge(model, args.models, tally, Load.between(before, after, model), compiled, args.max_error)
    row.faults += golden_faults
    row.max_error = max(row.max_error or 0.0, golden_error)
    if row.max_error > args.max_error:
        row.faults.append(f"largest difference from eager {row.max_error:.3g}, expected at most {args.max_error:.3g}")
    return row


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    try:
        prepare()
        names = chosen(args)
        command = CommandLine.find(args.belfry, args.admin)
        ready.wait(args.server, command, names, args.wait, say)
        rows = []
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(args.processes, mp_context=context) as pool:
            for done in [pool.submit(prepare) for _ in range(args.processes)]:
                done.result()
            for model in names:
                say(f"replay: {model}: {args.clients} clients, about {args.seconds:g} s")
                started = time.monotonic()
                rows.append(replay(args, pool, model, command))
                say(f"replay: {model}: {rows[-1].requests} requests in {time.monotonic() - started:.1f} s")
    except Problem as problem:
        say(f"replay.py: {problem}")
        return 3
    except ImportError as error:
        say(f"replay.py: {error}; see models/requirements.txt")
        return 3
    except KeyboardInterrupt:
        say("replay.py: interrupted")
        os._exit(130)  # the pool would wait for requests under way
    if args.json:
        print(json.dumps({"rows": [row.as_json() for row in rows]}, indent=2))
    else:
        print(report.table(rows))
        print(report.legend(rows))
    faults = [f"{row.model}: {fault}" for row in rows for fault in row.faults]
    for fault in faults:
        say(f"replay: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
