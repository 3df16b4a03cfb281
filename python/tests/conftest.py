"""Which test files run where, and what a skipped test means.

Files whose names begin as NUMPY_ALONE says need no torch; all others do. PARAGON_TEST_TORCH=no
runs the first alone, PARAGON_TEST_TORCH=yes the others; without it all run that can. With
PARAGON_TEST_REQUIRE=all a test that is skipped has failed.
"""

import importlib.util
import os
import signal

import pytest

NUMPY_ALONE = ("test_core", "test_files", "test_reference", "test_sparse", "test_wheel")
# ALSO has what some files need besides torch. Where it is missing the report's head says so:
# only make pyenv-latest installs it.
ALSO = {
    "test_torch_safetensors": ("safetensors",),
    "test_transformers": ("transformers", "accelerate"),
}


# A shell starts what it puts into the background with SIGINT ignored, and children inherit that: no
# program of a test would hear Ctrl-C. A handler of ours is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _left_out(name):
    """Why a test file does not run in this environment; empty if it does."""
    torch = os.environ.get("PARAGON_TEST_TORCH", "")
    alone = name.startswith(NUMPY_ALONE)
    if alone:
        return "it needs no torch (PARAGON_TEST_TORCH=yes)" if torch == "yes" else ""
    if torch == "no" or not torch and not importlib.util.find_spec("torch"):
        return "it needs torch"
    for prefix, modules in ALSO.items():
        missing = [m for m in modules if not importlib.util.find_spec(m)]
        if name.startswith(prefix) and missing:
            return f"it needs {' and '.join(missing)} (make pyenv-latest)"
    return ""


def pytest_ignore_collect(collection_path, config):
    if collection_path.name.startswith("test_") and _left_out(collection_path.name):
        return True
    return None


def pytest_report_header(config):
    """Names the files that do not run because of what is not installed."""
    folder = os.path.dirname(__file__)
    lines = []
    for name in sorted(os.listdir(folder)):
        why = name.startswith("test_") and _left_out(name)
        if why and "no torch" not in why:
            lines.append(f"left out: {name}: {why}")
    return lines


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    _skipped_is_failed(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    _skipped_is_failed(outcome.get_result())


def _skipped_is_failed(report):
    """Makes a skipped report a failed one if everything that tests need is to be there."""
    if os.environ.get("PARAGON_TEST_REQUIRE") != "all" or hasattr(report, "wasxfail"):
        return
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, and PARAGON_TEST_REQUIRE is all: {report.longrepr}"
