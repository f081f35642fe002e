import json
import re
import stat

import numpy as np
import pytest

pytest.importorskip("tritonclient.grpc")

from fake_server import FakeServer, serve

import replay
from replaying import client, facts, plan, report
from sample import golden
from sample.problem import Problem
from sample.traffic import Traffic


def scorer(inputs):
    """[3, rows, 2], the rows on axis 1 -> [rows, 1]."""
    return {"score": 1 / (1 + np.exp(-inputs["x"].sum((0, 2))[:, None]))}


def echo(inputs):
    return {"the_same": inputs["anything"]}


def off(inputs):
    return {"score": scorer(inputs)["score"] + np.float32(0.01)}


def backwards(inputs):
    """Right values, wrong rows."""
    return {"score": scorer(inputs)["score"][::-1].copy()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A made model: 60 rows, a third of them positive."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "scorer" / "1").mkdir(parents=True)
    x = np.random.default_rng(4).normal(size=(3, 60, 2)).astype(np.float32)
    score = scorer({"x": x})["score"]
    label = (score[:, 0] > np.quantile(score, 0.66)).astype(np.int8)
    label[:4] = 1 - label[:4]
    Traffic("score", score, {"x": x}, {"x": 1}, label).save(folder / "scorer" / "1" / "replay.npz")
    cases = {"two": golden.Case({"x": x[:, :2]}, {"score": score[:2]})}
    golden.save(folder / "scorer" / "1" / "golden.npz", cases)
    return folder


def run(made, fake: FakeServer, *more: str) -> int:
    return replay.main(
        ["--models", str(made), "--server", fake.address, "--metrics", fake.metrics_address, "--seconds", "0.2",
         "--clients", "3", "--processes", "2", "--belfry", more[0] if more else "true", *more[1:]]
    )  # fmt: skip


@pytest.fixture
def belfry(tmp_path):
    """A stand-in for the command-line client."""

    def make(state: str = "READY", reason: str = "") -> str:
        summary = {"name": "scorer", "version": "1", "state": state, "reason": reason}
        artifact = {"target": "cpu", "cache_hit": True, "compile_seconds": 8.25}
        answers = {
            "models": {"versions": [summary]},
            "show": {"versions": [{"summary": summary, "artifacts": [artifact]}]},
        }
        for verb, answer in answers.items():
            (tmp_path / verb).write_text(json.dumps(answer))
        program = tmp_path / "belfry"
        program.write_text(f'#!/bin/sh\n[ "$1" = --admin ] && cat "{tmp_path}/$3"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(program)

    return make


def test_a_good_server(made, belfry, capsys):
    with serve(FakeServer({"scorer": scorer, "echo": echo})) as fake:
        assert run(made, fake, belfry(), "--json") == 0
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert list(rows) == ["scorer", "echo"]
    row = rows["scorer"]
    assert row["errors"] == 0
    assert row["requests"] >= len(plan.cut(60, 1))
    assert 0 < row["p50_seconds"] <= row["p99_seconds"]
    assert row["max_error"] < 1e-6
    assert row["quality_value"] == pytest.approx(row["quality_eager"])
    assert 0.6 < row["quality_value"] < 1
    assert (row["compile_seconds"], row["cache_hit"]) == (8.25, True)
    # The golden case was sent before the first scrape and is not counted.
    assert sum(row["rows_by_card"].values()) == pytest.approx(row["mean_batch_rows"] * row["requests"])
    assert rows["echo"]["quality"] == "identical"
    assert rows["echo"]["compile_seconds"] is None


@pytest.mark.parametrize(
    ("model", "fault"), [(off, "largest difference from eager 0.01"), (backwards, "AUC of the answers")]
)
def test_wrong_answers_are_found(made, belfry, capsys, model, fault):
    with serve(FakeServer({"scorer": model})) as fake:
        assert run(made, fake, belfry(), "scorer") == 1
    said = capsys.readouterr()
    assert fault in said.err
    assert "scorer" in said.out  # the table is printed all the same


def test_failed_requests_are_counted_and_told(made, belfry, capsys):
    with serve(FakeServer({"scorer": scorer}, fail_every=5)) as fake:
        assert run(made, fake, belfry(), "scorer", "--json") == 1
    said = capsys.readouterr()
    (row,) = json.loads(said.out)["rows"]
    assert row["errors"] >= row["requests"] // 5 - 1 > 0
    assert re.search(r"scorer: \d+ requests failed: StatusCode.UNAVAILABLE: no healthy card", said.err)


def test_a_changed_echo_is_found(made, belfry, capsys):
    with serve(FakeServer({"echo": lambda i: {"the_same": i["anything"][::-1].copy()}})) as fake:
        assert run(made, fake, belfry(), "echo") == 1
    assert "an answer was not what had been sent" in capsys.readouterr().err


def test_without_rows_by_card_the_column_is_empty(made, belfry, capsys):
    with serve(FakeServer({"scorer": scorer}, card_rows=False)) as fake:
        assert run(made, fake, belfry(), "scorer", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["rows_by_card"] is None
    assert row["mean_batch_rows"] > 0


def test_what_is_missing_is_one_line(made, belfry, capsys, tmp_path):
    with serve(FakeServer({})) as fake:
        assert run(made, fake, belfry("FAILED", "the compiler said no"), "scorer", "--wait", "60") == 3
        assert capsys.readouterr().err.splitlines()[-1] == "replay.py: model scorer FAILED: the compiler said no"
        assert run(made, fake, belfry("COMPILING"), "scorer") == 3
        assert capsys.readouterr().err.splitlines()[-1].startswith("replay.py: not READY at 127.0.0.1:")
        assert run(made, fake, "/no/such/program", "scorer") == 3
        assert "there is no program /no/such/program" in capsys.readouterr().err
        assert run(tmp_path / "empty", fake, belfry(), "scorer") == 3
        assert "run models/make.py first" in capsys.readouterr().err


def test_every_row_is_sent_once_a_pass():
    parts = plan.cut(500, seed=9)
    assert np.concatenate(parts).tolist() == list(range(500))
    assert {len(p) for p in parts} >= {1, 16}
    assert [p.tolist() for p in parts] == [p.tolist() for p in plan.cut(500, seed=9)]


def test_echo_traffic_has_every_datatype():
    from tritonclient.utils import np_to_triton_dtype

    kinds = {np_to_triton_dtype(a.dtype) for r in plan.requests("echo", None, 1) for a in r.inputs.values()}
    assert kinds == {
        "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
        "FP16", "FP32", "FP64", "BYTES",
    }  # fmt: skip


def test_bytes_are_compared_to_the_byte():
    a, b = np.array([b"x", b"y\0"], dtype=np.object_), np.array([b"x", b"y"], dtype=np.object_)
    assert client.difference(a, a.copy()) == 0
    assert client.difference(a, b) == np.inf
    assert client.difference(a, a.reshape(2, 1)) == np.inf


def test_metrics_are_read_as_prometheus_does():
    metrics = facts.Metrics(
        "# HELP x y\nrows{card=\"cpu:0\",model=\"a\\\"b}\"} 3\nrows{card=\"cpu:1\",model=\"a\\\"b}\"} 4 1700000000\n"
        'rows{card="cpu:0",model="other"} 1e2\nplain 7\nhist_bucket{le="+Inf"} 5\nodd NaN\n'
    )  # fmt: skip
    assert metrics.total("rows", model='a"b}') == 7
    assert metrics.by("rows", "card") == {"cpu:0": 103, "cpu:1": 4}
    assert metrics.total("plain") == 7
    assert metrics.has("hist_bucket")
    assert not metrics.has("hist")
    assert metrics.total("missing") == 0


def test_percentile():
    assert report.percentile([], 0.5) is None
    assert report.percentile([3.0], 0.99) == 3
    assert report.percentile(list(range(1, 101)), 0.5) == 50
    assert report.percentile(list(range(1, 101)), 0.99) == 99


def test_table_aligns_and_fits():
    rows = [
        report.Row(
            "card-fraud", 123456, 0, 0.00312, 0.01104, 5210, 6.4, {"cpu:0": 70120, "cpu:1": 69950}, 8.12, False, 3e-7,
            "AUC 0.9855 (0.9855)",
        ),
        report.Row("echo", 90, 2, None, None, None, None, None, None, None, float("inf"), "changed"),
    ]  # fmt: skip
    lines = report.table(rows).splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 120
    assert set(lines[1]) == {"-"}
    end = lines[0].index("errors") + len("errors")
    assert [line[:end].split()[-1] for line in lines[2:]] == ["0", "2"]
    assert re.search(r"3\.12 +11\.04 +5210 +6\.4 +70120/69950 +8\.1 s +miss +3\.0e-07 +AUC", lines[2])
    assert "wrong" in lines[3]
    assert "cpu:0/cpu:1" in report.legend(rows)
    assert json.loads(json.dumps(rows[1].as_json(), allow_nan=False))["max_error"] == "infinite"


def test_versions_as_a_bare_list_or_in_an_object():
    assert facts.versions_of([{"name": "a"}]) == facts.versions_of({"versions": [{"name": "a"}]})
    assert facts.state_of({"state": "VERSION_STATE_READY"}) == facts.state_of({"state": "READY"}) == "READY"
    with pytest.raises(Problem):
        facts.versions_of("text")
