package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/cuda/dl"
	"github.com/paragon-train/paragon/internal/cuda/installed"
	"github.com/paragon-train/paragon/internal/cuda/nvrtc"
)

// The real compiler takes the whole source without a word, and its machine code has all kernels.
func TestTheInstalledCompilerTakesTheSource(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes ten seconds and more for each kind of GPU; PARAGON_TEST_SLOW runs it")
	}
	installed.Run(t, func(libs map[dl.Name]*dl.Library) {
		c, err := nvrtc.Open(libs[dl.NVRTC])
		if err != nil {
			t.Fatal(err)
		}
		source, err := Source()
		if err != nil {
			t.Fatal(err)
		}
		for _, compute := range [][2]int{{8, 0}, {8, 6}, {8, 9}, {9, 0}, {99, 0}} {
			image, log, err := c.Compile(nvrtc.Program{Name: "kernels.cu", Source: source, Compute: compute, Options: []string{"--std=c++17"}})
			if err != nil || log != "" {
				t.Errorf("%v: error %.2000v, log %.2000q", compute, err, log)
				continue
			}
			for _, name := range Names() {
				if !bytes.Contains(image, []byte(".text."+name+"\x00")) && !bytes.Contains(image, []byte(".entry "+name+"(")) {
					t.Errorf("%v: the image lacks %s", compute, name)
				}
			}
		}
	}, dl.NVRTC)
}

// NVIDIA's assembler takes the PTX for all kinds of GPU that it is for, and for the one that it is meant for no kernel spills registers.
func TestTheInstalledAssemblerTakesThePTX(t *testing.T) {
	ptxas, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skipf("no assembler of NVIDIA's: %v", err)
	}
	archs := []string{"sm_90"}
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		archs = append(archs, "sm_80", "sm_86", "sm_89")
	}
	for _, arch := range archs {
		file := filepath.Join(t.TempDir(), "kernels.ptx")
		if err := os.WriteFile(file, PTX(), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), ptxas, "-v", "-arch="+arch, "-o", file+".cubin", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%.4000s", arch, err, out)
		}
		text := string(out)
		if n := strings.Count(text, "Used "); n != len(Names()) {
			t.Errorf("%s: got %d kernels, want %d", arch, n, len(Names()))
		}
		const none = " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
		for line := range strings.Lines(text) {
			if arch == "sm_90" && strings.Contains(line, "spill stores") && !strings.Contains(line, none) {
				t.Errorf("%s: %s", arch, line)
			}
		}
	}
}
