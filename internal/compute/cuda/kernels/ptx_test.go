package kernels

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
			t.Fatalf("PARAGON_TEST_REQUIRE=all, and there is no %s", program)
		}
		t.Skipf("there is no %s", program)
	}
}

func TestThePTXIsThatOfTheSources(t *testing.T) {
	needs(t, "clang-19")
	fresh := filepath.Join(t.TempDir(), "kernels.ptx.gz")
	if err := os.WriteFile(fresh, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", filepath.Join("src", "build.sh"), fresh).CombinedOutput(); err != nil {
		t.Fatalf("src/build.sh: %v\n%s", err, out)
	}
	file, err := os.Open(fresh)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if ptx := PTX(); !bytes.Equal(ptx, want) {
		t.Fatalf("kernels.ptx.gz has %d bytes and is not what src/build.sh makes of the sources (%d bytes): run make generate", len(ptx), len(want))
	}
}

// function is one kernel's part of the PTX.
func function(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?s)\.entry ` + name + `\(.*?// -- End function`).Find(PTX())
	if m == nil {
		t.Fatalf("the PTX has no kernel %s", name)
	}
	return string(m)
}

func TestThePTXIsWhatTheDeviceIsFastAt(t *testing.T) {
	text := string(PTX())
	for _, bad := range []string{".local", "call", ".extern", ".func", "st.volatile"} {
		if i := strings.Index(text, bad); i >= 0 {
			t.Errorf("the PTX has %q: %.80s", bad, text[max(0, i-30):])
		}
	}
	if !strings.Contains(text, ".target sm_80\n") || !strings.Contains(text, ".version 7.0\n") {
		t.Errorf("the PTX begins with %.200s, want version 7.0 for sm_80", text)
	}
	for name, wants := range map[string][]string{
		"add_bf16":           {"ld.global.v4.u32", "st.global.v4.u32", "cvt.rn.bf16x2.f32"},
		"add_f16":            {"ld.global.v4.u32", "st.global.v4.u32", "cvt.rn.f16x2.f32"},
		"add_f32":            {"ld.global.v4.", "st.global.v4."},
		"bn_stats_bf16":      {"ld.global.v4.u32", "bar.sync", "st.global.v4.f32", "fma.rn.f32"},
		"bn_apply_bf16":      {"ld.global.v4.u32", "st.global.v4.u32", "st.global.u8"},
		"bn_grad_sums_bf16":  {"ld.global.v4.u32", "st.global.v4.u32", "ld.global.u8"},
		"bn_grad_dx_bf16":    {"ld.global.v4.u32", "st.global.v4.u32", "ld.global.u8"},
		"bn_grad_dx_x_bf16":  {"ld.global.v4.u32", "st.global.v4.u32"},
		"bn_finish":          {"div.rn.f64", "sqrt.rn.f64"},
		"max_pool_bf16":      {"ld.global.v4.u32", "st.global.v2.u32"},
		"cross_entropy_f32":  {"shfl.sync.bfly", "ex2.approx.ftz.f32", "lg2.approx.ftz.f32"},
		"embedding_grad_f32": {"vote.sync.ballot"},
		"pixels_bf16":        {"st.global.v4.u32"},
		"adam":               {"ld.global.v4.f32", "sqrt.rn.f32", "div.rn.f32"},
	} {
		body := function(t, name)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
	}
	// Four rows are read before the first is used, of each argument.
	for name, loads := range map[string]int{"bn_apply_bf16": 4, "bn_apply_add_bf16": 8, "bn_grad_sums_bf16": 8, "bn_grad_sums_x_bf16": 8, "bn_grad_dx_bf16": 8,
		"bn_grad_dx_x_bf16": 8, "bn_stats_bf16": 4, "add_bf16": 8} {
		if n := strings.Count(function(t, name), "ld.global.v4.u32"); n < loads {
			t.Errorf("%s has %d loads of 16 bytes, want at least %d", name, n, loads)
		}
	}
}

// A grid with more blocks than fit would end with a wave that has the device to itself; with fewer
// it would not fill it.
func TestTheSourcesKeepRoomForTheBlocksThatGridsHave(t *testing.T) {
	bound := regexp.MustCompile(`\.minnctapersm (\d+)`)
	for name, n := range resident {
		for _, typ := range []string{"_f32", "_bf16", "_f16", "_f32_1", "_bf16_1", "_f16_1"} {
			m := bound.FindStringSubmatch(function(t, name+typ))
			if m == nil || m[1] != fmt.Sprint(n) {
				t.Errorf("%s: launch bounds are %q, want %d blocks", name+typ, m, n)
			}
		}
	}
}

var parameter = regexp.MustCompile(`\.param \.([a-z])(\d+) `)

// parameterSizes are the sizes of a kernel's parameters in the PTX.
func parameterSizes(t *testing.T, name string) []int32 {
	t.Helper()
	head, _, _ := strings.Cut(function(t, name), "{")
	var sizes []int32
	for _, m := range parameter.FindAllStringSubmatch(head, -1) {
		sizes = append(sizes, map[string]int32{"64": 8, "32": 4}[m[2]])
	}
	return sizes
}

// rtc is what NVRTC knows by itself, as far as the kernels use it, for clang.
const rtc = `#define __CUDACC_RTC__ 1
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#include <__clang_cuda_builtin_vars.h>
__device__ unsigned __float_as_uint(float);
__device__ float __uint_as_float(unsigned);
__device__ float __fmaf_rn(float, float, float);
__device__ float __shfl_xor_sync(unsigned, float, int);
__device__ unsigned __ballot_sync(unsigned, int);
`

func TestTheOneTextOfTheSourcesCompilesAsNVRTCWould(t *testing.T) {
	needs(t, "clang-19")
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(source, "#include") {
		t.Errorf("the source includes files")
	}
	file := filepath.Join(t.TempDir(), "kernels.cu")
	if err := os.WriteFile(file, []byte(rtc+source), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("clang-19", "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80", "-std=c++17", "-fsyntax-only", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
}
