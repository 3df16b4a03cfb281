#!/bin/sh
# Measures training against PyTorch, in turns. Flags are those of bench/peers: --rows, --turns, --seconds, --table ...
# PYTHON names a Python that has torch (Debian: python3-torch).
set -eu
cd "$(dirname "$0")/../.."

PYTHON=${PYTHON:-/usr/bin/python3}
if ! "$PYTHON" -c 'import torch' 2>/dev/null; then
	echo "torch.sh: $PYTHON has no torch: install python3-torch, or name a Python that has it in PYTHON" >&2
	exit 1
fi
# PyTorch's linear layers are as fast as the BLAS beside it.
blas=$(readlink -f /usr/lib/*-linux-gnu/libblas.so.3 2>/dev/null | head -n 1 || true)
echo "BLAS: ${blas:-unknown}"
case $blas in */blas/libblas.so.3*) echo "torch.sh: this is the reference BLAS, which is slow: install libopenblas0-pthread for fair rows of the MLP" >&2 ;; esac
mkdir -p bin/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/bench/ ./bench/cpu ./bench/peers
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/ ./launch
exec bin/bench/peers --python "$PYTHON" --note "PyTorch $("$PYTHON" -c 'import torch; print(torch.__version__)'), BLAS ${blas:-unknown}" --commit "$(git describe --always --dirty 2>/dev/null || true)" "$@"
