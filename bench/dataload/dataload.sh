#!/bin/sh
# Measures reading images beside PyTorch's DataLoader, in turns. Flags are those of bench/dataload. The first time PYTHON (python3) makes a
# virtual environment with what peer-dataload.txt names, in out/dataload, which takes 5.6 GB, and then photographs beside it.
set -eu
cd "$(dirname "$0")/../.."

wanted=bench/dataload/peer-dataload.txt
if ! cmp -s "$wanted" out/dataload/installed.txt; then
	mkdir -p out
	"${PYTHON:-python3}" -m venv out/dataload
	out/dataload/bin/python -m pip install --disable-pip-version-check --quiet -r "$wanted"
	cp "$wanted" out/dataload/installed.txt
fi
[ -e out/dataload/photographs ] || out/dataload/bin/python bench/dataload/photographs.py out/dataload/photographs 500
mkdir -p bin/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/bench/ -buildvcs=auto ./bench/dataload
exec bin/bench/dataload --python out/dataload/bin/python --folders out/dataload/photographs/q90,out/dataload/photographs/q96 "$@"
