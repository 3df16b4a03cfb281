package dl

import (
	"strings"
	"testing"
)

// The version that ends a name is read, and nothing else is taken for one.
func TestParseVersion(t *testing.T) {
	for name, want := range map[string]Version{
		"/usr/lib/libcudnn.so.9.15.1":          {9, 15, 1},
		"libcuda.so.580.65.06":                 {580, 65, 6},
		"libnvrtc-builtins.so.13.0":            {13, 0, 0},
		"libcublasLt.so.13":                    {13, 0, 0},
		"libnccl.so.2.28.9.1":                  {2, 28, 9},
		"/usr/local/cuda-13.0":                 {13, 0, 0},
		"/usr/local/cuda":                      {},
		"/usr/local/cuda-13.0/lib64":           {},
		"libcudnn.so":                          {},
		"libcudnn.so.":                         {},
		"libcudnn.so.9.":                       {},
		"libcudnn.so.9.x":                      {},
		"libcudnn.so.-1":                       {},
		"libcudnn.so.99999999999999999999":     {},
		"":                                     {},
		"/usr/lib/python3.12/site-packages/so": {},
	} {
		if got := ParseVersion(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// A version written as one number is taken apart as its library does.
func TestEncodedVersion(t *testing.T) {
	for _, c := range []struct {
		name Name
		n    int
		want Version
	}{
		{CUDA, 13000, Version{13, 0, 0}}, {CUDA, 12080, Version{12, 8, 0}}, {CUDA, 11040, Version{11, 4, 0}},
		{CuDNN, 91501, Version{9, 15, 1}}, {CuDNN, 90000, Version{9, 0, 0}}, {CuDNN, 8902, Version{8, 9, 2}},
		{NCCL, 22809, Version{2, 28, 9}}, {NCCL, 2804, Version{2, 8, 4}},
		{CuBLASLt, 130101, Version{13, 1, 1}}, {CuBLASLt, 11402, Version{11, 4, 2}},
		{CuDNN, 0, Version{}}, {NCCL, -5, Version{}},
	} {
		if got := EncodedVersion(c.name, c.n); got != c.want {
			t.Errorf("%s %d: got %v, want %v", c.name, c.n, got, c.want)
		}
	}
}

// Newer versions are greater.
func TestVersionsCompare(t *testing.T) {
	ordered := []Version{{}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {9, 1, 0}, {9, 15, 0}, {12, 0, 0}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Compare(b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%v to %v: got %d", a, b, got)
			}
		}
	}
}

// The module of both kinds of drivers says its version.
func TestModuleVersion(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:10:40 UTC 2025\nGCC version:  gcc version 12.2.0\n":             "580.65.06",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (dvs-builder@U22)  Wed Aug 27\nGCC version: 11.4.0\n": "580.82.07",
		"": "", "NVRM\n1.2\n": "", "a . b 3. .4": "",
	} {
		if got := moduleVersion(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzVersions(f *testing.F) {
	f.Add("libcudnn.so.9.15.1", 91501)
	f.Add("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06", 13000)
	f.Add("cuda-13.0", -1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		v := ParseVersion(text)
		for _, part := range []int{v.Major, v.Minor, v.Patch} {
			if part < 0 || part >= maxPart {
				t.Errorf("%q: got %v", text, v)
			}
		}
		if again := ParseVersion("lib.so." + v.String()); again != v {
			t.Errorf("%q: got %v, and %v when that is read again", text, v, again)
		}
		for _, name := range Names {
			if v := EncodedVersion(name, n); v.Major < 0 || v.Minor < 0 || v.Minor >= 100 || v.Patch < 0 || v.Patch >= 100 {
				t.Errorf("%s %d: got %v", name, n, v)
			}
		}
		if m := moduleVersion(text); !strings.Contains(text, m) {
			t.Errorf("%q: got %q, which is not in it", text, m)
		}
	})
}
