#!/bin/sh
# Measures training against PyTorch, in turns. Flags are those of bench/peers: --rows, --turns, --seconds, --table ...
# PYTHON names a Python that has torch (Debian: python3-torch). With PEERS_TORCH=latest it is the newest PyTorch: the first time PYTHON
# (python3) makes a virtual environment with what torch-latest.txt names, in out/peers, which takes 5.4 GB. Eager PyTorch and torch.compile,
# which needs a C++ compiler, are measured apart, and the better one is the peer. Compiled code is kept in out/peers/cache.
# With LLMC, a checkout of github.com/karpathy/llm.c, rows with peer=llm.c are measured, too: its CPU program is built there, with OpenMP.
set -eu
llmc=${LLMC:+$(cd "$LLMC" && pwd)}
cd "$(dirname "$0")/../.."

limit=
command -v timeout >/dev/null && limit="timeout 60"
case ${PEERS_TORCH:-} in
"") PYTHON=${PYTHON:-/usr/bin/python3} ;;
latest)
	wanted=bench/peers/torch-latest.txt
	if ! cmp -s "$wanted" out/peers/installed.txt; then
		mkdir -p out
		"${PYTHON:-python3}" -m venv out/peers
		out/peers/bin/python -m pip install --disable-pip-version-check --quiet -r "$wanted"
		cp "$wanted" out/peers/installed.txt
	fi
	PYTHON=$PWD/out/peers/bin/python
	export TORCHINDUCTOR_CACHE_DIR="$PWD/out/peers/cache"
	;;
*)
	echo "torch.sh: PEERS_TORCH is \"$PEERS_TORCH\"; want latest, or nothing for the PyTorch of PYTHON" >&2
	exit 2
	;;
esac
if ! version=$($limit "$PYTHON" -c 'import torch; print(torch.__version__)' 2>/dev/null); then
	echo "torch.sh: skipped: $PYTHON has no torch: install python3-torch, name a Python that has it in PYTHON, or set PEERS_TORCH=latest" >&2
	exit 0
fi
openmp=
if [ -n "${PEERS_TORCH:-}" ]; then # its wheel has a BLAS of its own, on OpenMP's threads
	note="PyTorch $version from PyPI on the CPU, the better of eager and torch.compile"
	set -- --compile --start-limit 5m --budget 40m --save-as "peers-pytorch-${version%%+*}" "$@"
else
	# PyTorch's linear layers are as fast as the BLAS beside it. OpenBLAS on OpenMP's threads is the best of Debian's for it.
	blas=$(readlink -f /usr/lib/*-linux-gnu/libblas.so.3 2>/dev/null | head -n 1 || true)
	for folder in /usr/lib/*-linux-gnu/openblas-openmp; do
		if [ -e "$folder/libblas.so.3" ]; then
			blas=$folder/libblas.so.3 openmp=--blas-openmp
			export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
		fi
	done
	[ -n "$openmp" ] || echo "torch.sh: without libopenblas0-openmp PyTorch's MLP is not at its best" >&2
	note="PyTorch $version, BLAS ${blas:-unknown}"
fi
mkdir -p bin/bench
if [ -n "$llmc" ]; then # rows with peer=llm.c
	${CC:-cc} -Ofast -march=native -fopenmp -DOMP -w -I "$llmc" -o "$llmc/serve" bench/peers/llmc/serve.c -lm
	set -- --llmc "$llmc/serve" "$@"
fi
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/bench/ -buildvcs=auto ./bench/cpu ./bench/peers
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/ ./launch
exec bin/bench/peers $openmp --python "$PYTHON" --note "$note" "$@"
