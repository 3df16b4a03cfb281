package nvrtc_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/installed"
	"github.com/paragon-train/paragon/internal/compute/cuda/nvrtc"
)

// The real compiler makes machine code, PTX for a GPU that it does not know, and says with names
// and lines what it does not take.
func TestTheInstalledCompilerIsAsTheBindingHasIt(t *testing.T) {
	installed.Run(t, func(libs map[dl.Name]*dl.Library) {
		c, err := nvrtc.Open(libs[dl.NVRTC])
		if err != nil {
			t.Fatal(err)
		}
		good := nvrtc.Program{Name: "good.cu", Source: "#include \"two.h\"\nextern \"C\" __global__ void twice(float *x) { int unused; x[threadIdx.x] *= TWO; }\n",
			Headers: map[string]string{"two.h": "#define TWO 2\n", "other.h": "#error\n"}, Compute: [2]int{8, 0}, Options: []string{"--std=c++17"}}
		image, log, err := c.Compile(good)
		if err != nil || !bytes.HasPrefix(image, []byte("\x7fELF")) || !strings.Contains(log, "good.cu(2): warning") {
			t.Errorf("8.0: got %.20q, log %q, error %v; want machine code and a warning", image, log, err)
		}
		good.Compute = [2]int{99, 0}
		image, _, err = c.Compile(good)
		if err != nil || !bytes.Contains(image, []byte(".target sm_90")) || bytes.IndexByte(image, 0) != len(image)-1 {
			t.Errorf("99.0: got %.300q, error %v; want PTX for sm_90 that ends with its only zero", image, err)
		}
		for _, p := range []struct {
			nvrtc.Program
			name, log string
		}{
			{nvrtc.Program{Name: "bad.cu", Source: "__global__ void k(float *x) {\n y = 1; }", Compute: [2]int{9, 0}}, "NVRTC_ERROR_COMPILATION", "bad.cu(2): error: identifier \"y\" is undefined"},
			{nvrtc.Program{Name: "good.cu", Source: "", Compute: [2]int{9, 0}, Options: []string{"--no-such"}}, "NVRTC_ERROR_INVALID_OPTION", "--no-such"},
		} {
			_, _, err := c.Compile(p.Program)
			if e, ok := errors.AsType[*nvrtc.Error](err); !ok || e.Name != p.name || !strings.Contains(e.Log, p.log) {
				t.Errorf("got %v, want %s and %q in its log", err, p.name, p.log)
			}
		}
	}, dl.NVRTC)
}
