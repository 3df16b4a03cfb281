#!/bin/sh
# build.sh FILE compiles the kernels to PTX, packed by gzip. The text depends on the compiler's version: clang 19.
set -eu
out=$(realpath "$1")
cd "$(dirname "$0")"
clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 -Xclang -target-feature -Xclang +ptx70 \
	-std=c++17 -O3 -Wall -Wextra -Werror -S -o "$out.text" kernels.cu
gzip -9nc "$out.text" >"$out"
rm "$out.text"
