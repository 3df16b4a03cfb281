package fake_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// alike compares two functions as callers by address see them: the number of arguments, and of each
// whether it is a pointer, a number or a floating point number, how large it is, and how large what
// it points to, where both sides say so.
const alike = `
#include <type_traits>
namespace compare {
template <class T> struct plain { static constexpr bool value = std::is_arithmetic<T>::value || std::is_enum<T>::value || std::is_pointer<T>::value; };
template <class A, class B> constexpr bool value() {
  if constexpr (std::is_void<A>::value || std::is_void<B>::value)
    return std::is_void<A>::value && std::is_void<B>::value;
  else if constexpr (std::is_pointer<A>::value && std::is_pointer<B>::value) {
    using P = std::remove_cv_t<std::remove_pointer_t<A>>;
    using Q = std::remove_cv_t<std::remove_pointer_t<B>>;
    if constexpr (plain<P>::value && plain<Q>::value) return sizeof(P) == sizeof(Q) && std::is_floating_point<P>::value == std::is_floating_point<Q>::value;
    return true;
  } else
    return std::is_pointer<A>::value == std::is_pointer<B>::value && std::is_floating_point<A>::value == std::is_floating_point<B>::value && sizeof(A) == sizeof(B);
}
template <class F, class G> struct functions;
template <class R, class... A, class S, class... B> struct functions<R (*)(A...), S (*)(B...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(A) != sizeof...(B)) return false;
    else return value<R, S>() && (value<A, B>() && ...);
  }
};
} // namespace compare
`

// halves stand for headers of types of 16 bits, which want further packages of the vendor's and are
// of no use here.
const halves = `#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
#define __CUDA_FP8_H__
struct __half { unsigned short x; };
struct __half2 { __half x, y; };
struct __nv_bfloat16 { unsigned short x; };
`

var (
	systemInclude = regexp.MustCompile(`(?m)^#include <[^>]+>$`)
	quotedInclude = regexp.MustCompile(`(?m)^#include "([^"]+)"$`)
	linkage       = regexp.MustCompile(`extern "C" (\{)?`)
)

// inlined is a source with the files that it includes by name in their places, each once.
func inlined(t *testing.T, file string, seen map[string]bool) string {
	t.Helper()
	if seen[filepath.Base(file)] {
		return ""
	}
	seen[filepath.Base(file)] = true
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return quotedInclude.ReplaceAllStringFunc(strings.ReplaceAll(string(text), "#pragma once", ""), func(line string) string {
		return inlined(t, filepath.Join(filepath.Dir(file), quotedInclude.FindStringSubmatch(line)[1]), seen)
	})
}

// The stand-ins' functions have the arguments that the vendor's headers give them, as far as these
// lie on this machine.
func TestTheStandInsHaveTheVendorsPrototypes(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skipf("no C++ compiler: %v", err)
	}
	paths := new(dl.Search).Includes()
	for _, c := range []struct {
		header, source, functions, layout string
	}{
		{"cuda.h", "src/driver.cpp", `cu[A-Z]\w*`, "static_assert(sizeof(CUuuid) == 16 && sizeof(CUdevice) == 4 && sizeof(CUdeviceptr) == 8 && sizeof(CUjit_option) == 4);"},
		{"nvrtc.h", "src/nvrtc.cpp", `nvrtc[A-Z]\w*`, ""},
		{"nccl.h", "src/nccl.cpp", `nccl[A-Z]\w*`, ""},
		{"cublasLt.h", "src/cublaslt/cublaslt.cpp", `cublasLt[A-Z]\w*`, `using Result = cublasLtMatmulHeuristicResult_t; // package cublaslt's result
static_assert(sizeof(Result) == 96 && sizeof(cublasLtMatmulAlgo_t) == 64 && offsetof(Result, algo) == 0 && offsetof(Result, workspaceSize) == 64 &&
  offsetof(Result, state) == 72 && offsetof(Result, wavesCount) == 76);`},
		{"cudnn.h", "src/cudnn/cudnn.cpp", `cudnn[A-Z]\w*`, ""},
	} {
		t.Run(c.header, func(t *testing.T) {
			var folders []string
			declared := ""
			for _, path := range paths {
				if info, err := os.Stat(path); err != nil || !info.IsDir() {
					path = filepath.Dir(path)
				}
				if slices.Contains(folders, path) {
					continue
				}
				folders = append(folders, path)
				headers := []string{filepath.Join(path, c.header)}
				if c.header == "cudnn.h" {
					more, _ := filepath.Glob(filepath.Join(path, "cudnn_*.h"))
					headers = append(headers, more...)
				}
				for _, header := range headers {
					text, _ := os.ReadFile(header)
					declared += string(text)
				}
			}
			if declared == "" {
				t.Skipf("there is no %s on this machine; CPATH names folders of headers", c.header)
			}
			source := inlined(t, c.source, make(map[string]bool))
			// Functions begin in the first column, in all of these sources.
			definition := regexp.MustCompile(`(?m)^(?:API )?(?:const )?\w+ \*?(` + c.functions + `)\(`)
			known := make(map[string]bool)
			for _, word := range regexp.MustCompile(`\w+`).FindAllString(declared, -1) {
				known[word] = true
			}
			var b strings.Builder
			for _, line := range systemInclude.FindAllString(source, -1) {
				b.WriteString(line + "\n")
			}
			fmt.Fprintf(&b, "%s#include <%s>\n%snamespace standin {\n", halves, c.header, alike)
			text := systemInclude.ReplaceAllString(source, "")
			text = regexp.MustCompile(`(?m)^\} // extern "C"$`).ReplaceAllString(text, "")
			b.WriteString(linkage.ReplaceAllString(text, ""))
			b.WriteString("}\n" + c.layout + "\n")
			compared := 0
			for _, m := range definition.FindAllStringSubmatch(source, -1) {
				if !known[m[1]] {
					t.Logf("%s is not in this version of %s", m[1], c.header)
					continue
				}
				compared++
				fmt.Fprintf(&b, "static_assert(compare::functions<decltype(&::%[1]s), decltype(&standin::%[1]s)>::check(), \"%[1]s\");\n", m[1])
			}
			if compared == 0 {
				t.Fatalf("%s: none of its functions is in %s", c.source, c.header)
			}
			t.Logf("%d functions", compared)
			file := filepath.Join(t.TempDir(), "compare.cpp")
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			args := []string{"-std=c++17", "-fsyntax-only", "-w"}
			for _, folder := range folders {
				if !strings.HasPrefix(folder, "/usr/include") {
					args = append(args, "-I", folder)
				}
			}
			cmd := exec.CommandContext(t.Context(), "g++", append(args, file)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%.4000s", err, out)
			}
		})
	}
}
