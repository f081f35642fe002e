"""Whether the answers were right: against eager, value by value, and in the figure that matters for the model."""

from pathlib import Path

import numpy as np

from replaying.client import Tally, describe, difference, to_wire
from replaying.facts import Compile, Load
from replaying.plan import ECHO, Request
from replaying.report import Row, percentile
from sample import golden
from sample.quality import auc, cosine
from sample.traffic import Traffic

AUC_MAY_DIFFER = 0.002
LEAST_COSINE = 0.999


def golden_cases(address: str, directory: Path, model: str, timeout: float) -> tuple[float, list[str]]:
    """Sends the golden cases, one at a time. -> (largest difference from eager, faults)."""
    if model == ECHO:
        return 0.0, []
    import tritonclient.grpc as grpc

    worst, faults = 0.0, []
    client = grpc.InferenceServerClient(address)
    try:
        for name, case in golden.load(directory / model / "1" / "golden.npz").items():
            request = Request(dict(case.inputs), "", np.empty(0), np.empty(0))
            try:
                answer = client.infer(model, to_wire(request), client_timeout=timeout)
            except Exception as error:  # a fault to report, whatever it is
                faults.append(f"golden case {name}: {describe(error)}")
                continue
            for output, want in case.outputs.items():
                got = answer.as_numpy(output)
                if got is None:
                    faults.append(f"golden case {name}: the answer has no output {output!r}")
                else:
                    worst = max(worst, difference(got, want))
    finally:
        client.close()
    return worst, faults


def judge(model: str, directory: Path, tally: Tally, load: Load, compiled: Compile, max_error: float) -> Row:
    errors = sum(tally.errors.values())
    span = tally.ended - tally.began
    row = Row(
        model=model,
        requests=len(tally.latency) + errors,
        errors=errors,
        p50=percentile(tally.latency, 0.5),
        p99=percentile(tally.latency, 0.99),
        rows_per_second=tally.rows / span if span > 0 and tally.rows else None,
        mean_batch=load.mean_batch,
        rows_by_card=load.rows_by_card,
        compile_seconds=compiled.seconds,
        cache_hit=compiled.cache_hit,
        max_error=tally.worst if tally.latency else None,
    )
    row.faults += [f"{count} requests failed: {text}" for text, count in tally.errors.most_common(5)]
    if not tally.latency:
        row.faults.append("no request was answered")
    elif model == ECHO:
        row.quality = "identical" if tally.worst == 0 else "changed"
        if tally.worst != 0:
            row.faults.append("an answer was not what had been sent")
    else:
        _figure(row, Traffic.load(directory / model / "1" / "replay.npz"), tally)
    return row


def _figure(row: Row, traffic: Traffic, tally: Tally) -> None:
    rows = np.array(sorted(tally.answers), dtype=np.int64)
    if len(rows) < len(traffic):
        row.faults.append(f"only {len(rows)} of {len(traffic)} rows were answered in time to judge the quality")
    if not len(rows):
        return
    served = np.stack([tally.answers[r] for r in rows.tolist()])
    if traffic.label is not None:
        row.quality_value = auc(traffic.label[rows], served)
        row.eager_value = auc(traffic.label[rows], traffic.eager[rows])
        row.quality = f"AUC {row.quality_value:.4f} ({row.eager_value:.4f})"
        if not abs(row.quality_value - row.eager_value) <= AUC_MAY_DIFFER:
            row.faults.append(f"AUC of the answers {row.quality_value:.4f}, of eager {row.eager_value:.4f}")
    else:
        row.quality_value, row.eager_value = float(cosine(served, traffic.eager[rows]).min()), 1.0
        row.quality = f"cosine {row.quality_value:.6f}"
        if not row.quality_value >= LEAST_COSINE:
            row.faults.append(f"least cosine with eager {row.quality_value:.6f}, expected at least {LEAST_COSINE}")
