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
mkdir -p bin/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/bench/ ./bench/cpu ./bench/peers
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/ ./launch
exec bin/bench/peers --python "$PYTHON" --commit "$(git describe --always --dirty 2>/dev/null || true)" "$@"
