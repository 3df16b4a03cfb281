#!/bin/sh
# Measures training against PyTorch, in turns. Flags are those of bench/peers: --rows, --turns, --seconds, --table ...
# PYTHON names a Python that has torch (Debian: python3-torch).
set -eu
cd "$(dirname "$0")/../.."

PYTHON=${PYTHON:-/usr/bin/python3}
limit=
command -v timeout >/dev/null && limit="timeout 60"
if ! version=$($limit "$PYTHON" -c 'import torch; print(torch.__version__)' 2>/dev/null); then
	echo "torch.sh: skipped: $PYTHON has no torch: install python3-torch, or name a Python that has it in PYTHON" >&2
	exit 0
fi
# PyTorch's linear layers are as fast as the BLAS beside it. OpenBLAS on OpenMP's threads is the best of Debian's for it.
blas=$(readlink -f /usr/lib/*-linux-gnu/libblas.so.3 2>/dev/null | head -n 1 || true)
openmp=
for folder in /usr/lib/*-linux-gnu/openblas-openmp; do
	if [ -e "$folder/libblas.so.3" ]; then
		blas=$folder/libblas.so.3 openmp=--blas-openmp
		export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	fi
done
[ -n "$openmp" ] || echo "torch.sh: without libopenblas0-openmp PyTorch's MLP is not at its best" >&2
mkdir -p bin/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/bench/ -buildvcs=auto ./bench/cpu ./bench/peers
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/ ./launch
exec bin/bench/peers $openmp --python "$PYTHON" --note "PyTorch $version, BLAS ${blas:-unknown}" "$@"
