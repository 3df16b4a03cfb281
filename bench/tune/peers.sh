#!/bin/sh
# Measures rules that stop trials on learning curves beside Optuna's and Syne Tune's. Flags are those of bench/tune --curves. The
# first time PYTHON (python3) makes a virtual environment with what peer-curves.txt names, in out/curves.
# PEERS_RULES names Optuna's rules, and PEERS_SYNETUNE Syne Tune's, with commas; mobster and dyhpo take minutes for a search.
set -eu
cd "$(dirname "$0")/../.."

wanted=bench/tune/peer-curves.txt
if ! cmp -s "$wanted" out/curves/installed.txt; then
	mkdir -p out
	"${PYTHON:-python3}" -m venv out/curves
	out/curves/bin/python -m pip install --disable-pip-version-check --quiet -r "$wanted"
	cp "$wanted" out/curves/installed.txt
fi
python=$PWD/out/curves/bin/python
mkdir -p bin/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/bench/ -buildvcs=auto ./bench/tune
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bin/bench/tune --curves judging "$@" --suggesters none --save "$scratch/optuna" --program-rules "${PEERS_RULES:-none,sha,hyperband,median}" \
	--program "Optuna=$python bench/tune/peer_curves.py optuna" >/dev/null
bin/bench/tune --curves judging "$@" --suggesters none --save "$scratch/synetune" --program-rules "${PEERS_SYNETUNE:-asha,bohb}" \
	--program "SyneTune=$python bench/tune/peer_curves.py synetune" >/dev/null
bin/bench/tune --curves judging "$@" --load "$scratch/optuna,$scratch/synetune"
