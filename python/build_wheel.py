"""The build backend of pyproject.toml: `pip install ./python` in a clone, where Go is installed.

A backend is what PEP 517 says: a module with functions that pip calls. This one runs the Go program
tools/wheel, which writes the wheel with the launch binary in it.
"""

import pathlib
import shutil
import subprocess

_REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel of this machine into wheel_directory and returns its name."""
    if not (_REPOSITORY / "tools" / "wheel" / "main.go").exists():
        raise SystemExit(
            "paragon-train is built in a clone of its repository: `make wheel`, then "
            "`pip install bin/wheels/*.whl`"
        )
    if shutil.which("go") is None:
        raise SystemExit("paragon-train is built by Go 1.26 or later, which is not installed")
    out = pathlib.Path(wheel_directory).resolve()
    before = set(out.glob("*.whl"))
    command = ["go", "run", "./tools/wheel", "-out", str(out)]
    subprocess.run(command, cwd=_REPOSITORY, check=True)
    (wheel,) = set(out.glob("*.whl")) - before
    return wheel.name


def build_sdist(sdist_directory, config_settings=None):
    """Refuses: a source distribution would need Go and the whole repository."""
    raise SystemExit("paragon-train has no source distribution: clone the repository instead")
