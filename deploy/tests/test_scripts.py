"""The shell functions of this folder, each run in a shell of its own. Nothing is installed and no port is opened."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[1]
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)] or ["sh"]


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    def run(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.sh"
        lines = [f"ROOT={DEPLOY.parent} BUILD={tmp_path}/build", "mkdir -p $BUILD/logs", "set -eu"]
        lines += [f". {DEPLOY}/lib/{name}.sh" for name in ("common", "setup", "server")]
        script.write_text("\n".join([*lines, text, ""]))
        command = ["busybox", "sh"] if request.param == "busybox" else [request.param]
        return subprocess.run(
            [*command, str(script)], capture_output=True, text=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        )  # fmt: skip

    return run


def test_a_step_that_works_keeps_its_output_in_the_log(shell, tmp_path):
    done = shell(f"step 'doing it' {tmp_path}/logs/a.log sh -c 'echo noise; echo more >&2'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "doing it\n", "")
    assert (tmp_path / "logs" / "a.log").read_text() == "noise\nmore\n"


def test_a_step_that_fails_shows_the_end_of_the_log_and_hands_on_the_code(shell, tmp_path):
    done = shell(f"step 'doing it' {tmp_path}/a.log sh -c 'echo the reason; exit 7' || die \"code $?\"")
    assert done.returncode == 1
    assert "the reason" in done.stderr
    assert done.stderr.splitlines()[-1] == "script.sh: code 7"


def test_a_quiet_step_only_fails(shell, tmp_path):
    done = shell(f"STEP_QUIET=yes; step t {tmp_path}/a.log sh -c 'echo noise; exit 3' || echo code $?")
    assert (done.stdout, done.stderr) == ("t\ncode 3\n", "")


def test_nobody_serves_from_an_empty_folder(shell, tmp_path):
    done = shell(f"server_pid {tmp_path} || echo none; stop_server {tmp_path} && echo fine")
    assert done.stdout == "none\nfine\n"


@pytest.fixture
def belfryd(tmp_path):
    """A program called belfryd that takes the lock's place: writes its number, ends on SIGTERM."""
    program = tmp_path / "bin" / "belfryd"
    program.parent.mkdir()
    shutil.copy(shutil.which("sleep"), program)
    started = []

    def start(data: Path, *arguments: str) -> subprocess.Popen:
        process = subprocess.Popen([str(program), "60", *arguments])
        started.append(process)
        (data / "run").mkdir(parents=True, exist_ok=True)
        (data / "run" / "lock").write_text(f"{process.pid}\n")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_another_program_with_the_same_number_is_left_alone(shell, tmp_path):
    other = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "lock").write_text(f"{other.pid}\n")
        assert shell(f"stop_server {tmp_path}").returncode == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_belfryd_of_another_folder_is_left_alone(shell, tmp_path, belfryd):
    process = belfryd(tmp_path / "mine", "0")  # sleep takes a sum of numbers; not our folder
    assert shell(f"server_pid {tmp_path}/mine || echo none; stop_server {tmp_path}/mine").stdout == "none\n"
    assert process.poll() is None


def test_a_server_that_cannot_start_says_why(shell, tmp_path):
    text = f"start_server {tmp_path}/data {tmp_path}/log sh -c 'echo port in use; exit 1' || die \"no: $START_PROBLEM\""
    done = shell(text)
    assert done.returncode == 1
    assert done.stderr == "script.sh: no: port in use\n"


def test_start_then_stop(shell, tmp_path):
    """A stand-in for belfryd in shell: an interpreter called belfryd that runs what it is given."""
    data, program = tmp_path / "data", tmp_path / "belfryd"
    shutil.copy(os.path.realpath(shutil.which("dash") or "/bin/sh"), program)
    program.chmod(0o755)
    body = tmp_path / "body.sh"
    body.write_text(
        f"mkdir -p {data}/run; echo $$ >{data}/run/lock\n"
        f'echo \'{{"inference": "127.0.0.1:5",\n "admin": "unix:/x", "pid": 1}}\' >{data}/run/addresses.json\n'
        f'trap "rm {data}/run/addresses.json; exit 0" TERM\n'
        "while :; do sleep 0.1; done\n"
    )
    done = shell(
        f'start_server {data} {tmp_path}/log {program} {body} --data-dir {data} || die "$START_PROBLEM"\n'
        f"address_of {data} inference; address_of {data} admin; server_pid {data} >/dev/null && echo runs\n"
        f"stop_server {data} >/dev/null && ! server_pid {data} && echo stopped\n"
    )
    assert done.stderr == ""
    assert done.stdout == "127.0.0.1:5\nunix:/x\nruns\nstopped\n"
    assert not (data / "run" / "addresses.json").exists()


def test_the_build_is_configured_again_only_when_a_setting_changed(shell, tmp_path):
    build = tmp_path / "build"
    build.mkdir()
    (build / "build.ninja").touch()
    (build / "CMakeCache.txt").write_text(
        "CMAKE_PREFIX_PATH:UNINITIALIZED=/v/torch/share/cmake\nX:BOOL=ON\nXY:STRING=\n"
    )
    done = shell(
        "configured_as -DCMAKE_PREFIX_PATH=/v/torch/share/cmake -DX=ON && echo same\n"
        "configured_as -DX=OFF || echo changed\nconfigured_as -DNEW=1 || echo new\n"
        "rm $BUILD/build.ninja; configured_as -DX=ON || echo gone\n"
    )
    assert done.stdout == "same\nchanged\nnew\ngone\n"


def test_no_install_names_what_is_missing(shell):
    done = shell("make_venv", BELFRY_NO_INSTALL="yes", BELFRY_VENV="/no/such/venv")
    assert done.returncode == 1
    assert done.stderr == "script.sh: there is no Python environment /no/such/venv\n"


def test_unmet_requirements(tmp_path):
    pins = tmp_path / "pins.txt"
    pins.write_text(
        f"# a comment\npytest=={pytest.__version__}\npytest[extra]=={pytest.__version__}  # why\n"
        "pytest==0.0.1\nno-such-package==1.0\n\n"
    )
    done = subprocess.run(
        [sys.executable, DEPLOY / "lib" / "unmet.py", pins, "also-not-there==2"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["pytest==0.0.1", "no-such-package==1.0", "also-not-there==2"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "usage: sh deploy/quickstart.sh"),
        (["--nonsense"], 2, "quickstart.sh: there is no option --nonsense; see --help\n"),
        (["--seconds"], 2, "quickstart.sh: --seconds needs a number; see --help\n"),
        (
            ["--seconds", "ten"],
            2,
            "quickstart.sh: --seconds: got 'ten', expected a whole number from 1 on; see --help\n",
        ),
        (["--stop"], 0, ""),
    ],
)
def test_quickstart_options(tmp_path, arguments, code, said):
    done = subprocess.run(
        ["sh", DEPLOY / "quickstart.sh", *arguments], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "BELFRY_BUILD_DIR": str(tmp_path / "build")},
    )  # fmt: skip
    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).startswith(said)
    assert not (tmp_path / "build").exists()  # nothing was begun
