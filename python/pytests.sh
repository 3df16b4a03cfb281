#!/bin/sh
# Tests the Python client: python/pytests.sh BIN DEBIAN_PYTHON, as make pytests calls it. BIN/python
# has launch, examples/mnist and the wheel. What is missing is said; with PARAGON_TEST_REQUIRE=all it is a failure.
set -eu
cd "$(dirname "$0")/.."
bin=$(realpath "$1") debian=$2
export PARAGON_LAUNCH="$bin/python/launch" PARAGON_TEST_WHEELS="$bin/python" PARAGON_TEST_MNIST="$bin/python/mnist"
export PYTHONPATH="$PWD/python" PYTHONDONTWRITEBYTECODE=1
code=0

# absent says what cannot be tested, why, and what to do.
absent() {
	echo "pytests: $1" >&2
	[ "${PARAGON_TEST_REQUIRE:-}" != all ] || code=1
}

# pytests runs tests: the Python, which programs of tests find as python3, too, whether it has
# torch, and more arguments of pytest.
pytests() {
	python=$1
	export PARAGON_TEST_TORCH="$2"
	shift 2
	echo "pytests: $("$python" --version), torch: $PARAGON_TEST_TORCH"
	# A test that hangs is shown with the stacks of its threads, and does not hold up CI for ever.
	PATH="$(dirname "$python"):$PATH" timeout -k 10 600 "$python" -m pytest -q -p no:cacheprovider --durations=8 -o faulthandler_timeout=90 "$@" python/tests || code=1
}

if make --no-print-directory pyenv; then
	pytests "$bin/pyenv/bin/python" no
	"$bin/pyenv/bin/vermin" --quiet --no-tips --eval-annotations --target=3.9- --violations python/paragon examples/python || code=1
elif "$debian" -c 'import numpy, pytest' 2>/dev/null; then
	# No installation mends a network without PyPI, so that is no failure.
	echo "pytests: no environment bin/pyenv, which needs python3-venv and PyPI: $debian stands in; what pip installs is not tested" >&2
	pytests "$debian" no --ignore=python/tests/test_wheel.py
else
	absent "no environment bin/pyenv: install python3-venv, and let pip reach PyPI"
fi
if "$debian" -c 'import numpy, pytest, torch' 2>/dev/null; then
	pytests "$debian" yes
else
	absent "$debian has no torch: install Debian's python3-torch python3-numpy python3-pytest"
fi
exit $code
