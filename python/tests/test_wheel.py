"""The wheel of make wheel, installed by pip into a fresh virtual environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# Neither this environment's packages nor its launch are there for what is installed.
CLEAN = {
    k: v for k, v in os.environ.items() if not re.match("PYTHON|PARAGON|DMLC|VIRTUAL_ENV", k)
}


def run(*command, **more):
    """Runs a command in an empty environment, and returns what it printed."""
    done = subprocess.run(
        [str(c) for c in command],
        env=CLEAN,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        **more,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def pip(environment, *arguments):
    """Runs this Python's pip on another environment: it need not have one, which saves seconds."""
    python = environment / "bin" / "python"
    own = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    return run(*own, *arguments)


@pytest.fixture(scope="module")
def wheel():
    folder = os.environ.get("PARAGON_TEST_WHEELS")
    if not folder:
        pytest.skip("no wheel was made: make pytests makes it and sets PARAGON_TEST_WHEELS")
    (found,) = Path(folder).glob("paragon_train-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The bin folder of a virtual environment into which pip installed the wheel."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip(folder, "install", wheel)
    return folder / "bin"


def test_pip_installs_the_command_launch(installed):
    out = run(installed / "launch", "--version")
    assert re.match(r"launch version \d+\.\d+\.\d+", out), out
    assert run(installed / "python", "-m", "paragon", "--version") == out


def test_pip_installs_numpy_alone(installed):
    out = pip(installed.parent, "list", "--format=freeze")
    names = {line.split("==")[0].lower() for line in out.splitlines()}
    assert names == {"numpy", "paragon-train"}


def test_version_is_that_of_the_repository(installed):
    source = (REPOSITORY / "version" / "version.go").read_text()
    (want,) = re.findall(r'(?m)^const Number = "(.*)"$', source)
    code = (
        "import importlib.metadata, paragon;"
        "print(paragon.__version__, importlib.metadata.version('paragon-train'))"
    )
    assert run(installed / "python", "-c", code, cwd="/").split() == [want, want]


def test_a_job_runs_from_what_is_installed(installed, tmp_path):
    (tmp_path / "train.py").write_text(
        "import paragon\n"
        "store = paragon.init()\n"
        "store.barrier()\n"
        "print('worker', store.rank, 'of', store.num_workers, paragon.__file__)\n"
        "store.close()\n"
    )
    out = run(
        installed / "launch", "-n", "2", "-s", "1", "--", installed / "python", "train.py",
        cwd=tmp_path,
    )
    for rank in range(2):
        line = f"worker {rank} of 2 {installed.parent}"
        assert line in out, out


def test_what_was_installed_is_gone_after_uninstall(wheel, tmp_path):
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path)
    pip(tmp_path, "install", "--no-deps", wheel)
    assert list(tmp_path.glob("lib/*/site-packages/paragon/bin/launch"))
    pip(tmp_path, "uninstall", "--yes", "paragon-train")
    assert not list(tmp_path.glob("lib/*/site-packages/paragon*"))
    assert not (tmp_path / "bin" / "launch").exists()
