#!/bin/sh
# Measures the store against ps-lite, and against gloo's all-reduce where python3-torch is installed, in turns: bench/kv starts
# their processes and ours. PSLITE names a checkout of ps-lite; it is built with Debian's libzmq3-dev, libprotobuf-dev and
# protobuf-compiler. Arguments are flags of bench/kv, behind those below. A run takes -budget (9m) at most: turns that would not fit are left
# out, and a work for which a peer takes longer than -limit (20s), or at which it fails, is a row that says so.
#
#	PSLITE=/some/folder/ps-lite bench/peers/pslite.sh [-count 10] [-scale 1] [-jobs 2x2] [-work resnet18] ...
#
# The peers:
#	pslite-tcp       push and pull in one message; TCP with cubic, as our own connections within a host
#	pslite-unix      the same over ps-lite's own local sockets
#	pslite-2trips    the ResNet18 round as MXNet's workers do it: pushes, then pulls
#	pslite-answer    the same with a server that sums nothing and waits for nobody
#	pslite-SYSTEM    as pslite-tcp, under the system's own congestion control where that is not cubic
#	gloo             all-reduce of ResNet18's bytes between the workers; with cubic
#	floor-tcp        what the kernel's copies alone take: the same bytes there and back over TCP with cubic, and nothing else
#	floor-memory     a read of each contribution and a write of the value in shared memory
set -eu
PSLITE=${PSLITE:-}
case $PSLITE in /* | "") ;; *) PSLITE=$PWD/$PSLITE ;; esac
cd "$(dirname "$0")/../.."

skip() {
	echo "pslite.sh: skipped: $1" >&2
	exit 0
}
[ -n "$PSLITE" ] || skip "PSLITE names no checkout of ps-lite"
[ -f "$PSLITE/src/van.cc" ] || skip "$PSLITE is no checkout of ps-lite: it has no src/van.cc"
CXX=${CXX:-g++}
for program in "$CXX" protoc; do
	command -v "$program" >/dev/null || skip "no $program: install g++ and protobuf-compiler"
done
for header in zmq.h google/protobuf/message.h; do
	echo "#include <$header>" | "$CXX" -x c++ -fsyntax-only - 2>/dev/null || skip "no $header: install libzmq3-dev and libprotobuf-dev"
done

out=$PWD/bin/bench
build=$out/pslite.build
mkdir -p "$build"
if [ ! -e "$out/pslite" ] || [ -n "$(find bench/peers/pslite/pslite.cc bench/peers/pslite.sh bench/peers/pslite/congestion.c "$PSLITE/src" "$PSLITE/include" -newer "$out/pslite" | head -n 1)" ]; then
	echo "pslite.sh: building ps-lite, less than a minute" >&2
	protoc -I "$PSLITE/src" --cpp_out="$build" "$PSLITE/src/meta.proto" &&
		"$CXX" -std=c++14 -O3 -march=native -w -pthread -I "$PSLITE/include" -I "$PSLITE/src" -I "$build" -o "$out/pslite" bench/peers/pslite/pslite.cc \
			"$PSLITE/src/van.cc" "$PSLITE/src/customer.cc" "$PSLITE/src/postoffice.cc" "$build/meta.pb.cc" -lzmq -lprotobuf &&
		"$CXX" -x c -O2 -shared -fPIC -o "$out/congestion.so" bench/peers/pslite/congestion.c || skip "ps-lite does not build here: the compiler says why above"
fi
CGO_ENABLED=0 ${GO:-go} build -trimpath -o "$out/" ./bench/kv

cubic="env LD_PRELOAD=$out/congestion.so CONGESTION=cubic"
set -- -peer "pslite-2trips=$cubic $out/pslite --trips 2 --whole" -peer "pslite-answer=$cubic $out/pslite --trips 2 --whole --server answer" "$@"
system=$(cat /proc/sys/net/ipv4/tcp_congestion_control 2>/dev/null || echo cubic)
[ "$system" = cubic ] || set -- -peer "pslite-$system=$out/pslite --whole" "$@"
PYTHON=${PYTHON:-/usr/bin/python3}
limit=
command -v timeout >/dev/null && limit="timeout 60"
if $limit "$PYTHON" -c 'import torch' 2>/dev/null; then
	set -- -peer "gloo=$cubic $PYTHON $PWD/bench/peers/gloo.py" "$@"
else
	echo "pslite.sh: without gloo: $PYTHON has no torch: install python3-torch, or name a Python that has it in PYTHON" >&2
fi
exec "$out/kv" -work '*,many/*,push/*,array/*' -count 5 -scale 0.3 -limit 20s -floor -peer "pslite-tcp=$cubic $out/pslite" -peer "pslite-unix=env DMLC_LOCAL=1 $out/pslite" "$@"
