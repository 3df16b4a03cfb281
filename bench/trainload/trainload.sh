#!/bin/sh
# Packs the photographs of FOLDER at 72 and at 256 pixels, in out/trainload, and measures training on them at 64 and at 224 pixels.
#
#	bench/trainload/trainload.sh FOLDER [flags of bench/trainload]
set -eu
cd "$(dirname "$0")/../.."
folder=$1
shift
mkdir -p bin/bench
CGO_ENABLED=0 ${GO:-go} build -trimpath -o bin/bench/ -buildvcs=auto ./bench/trainload ./launch
for size in 72 256; do
	for kind in rec tar; do
		to=out/trainload/$size/$kind
		[ -e "$to" ] && continue
		mkdir -p "$to"
		bin/bench/launch data pack --resize "$size" "$folder" "$to/set.$kind"
	done
done
sets() { echo "out/trainload/$1/rec/set.rec,out/trainload/$1/tar/set-000000.tar"; }
bin/bench/trainload --data "$(sets 72)" --image-size 64 --batch 64 --steps 16 --latency 20ms "$@"
bin/bench/trainload --data "$(sets 256)" --image-size 224 --batch 16 --steps 6 --warm 2 --latency 20ms "$@"
bin/bench/trainload --data "$(sets 256)" --image-size 224 --batch 16 --memory "$@"
