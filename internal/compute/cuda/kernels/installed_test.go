package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/installed"
	"github.com/paragon-train/paragon/internal/compute/cuda/nvrtc"
)

// The real compiler compiles the whole source without a message, and its machine code has all
// kernels.
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

// NVIDIA's assembler takes the PTX for all kinds of GPU that it is for, and for the one that it is
// meant for no kernel spills registers.
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

// The driver's own compiler, which LoadModule comes to, takes the PTX; it needs no GPU for that.
func TestTheInstalledDriversCompilerTakesThePTX(t *testing.T) {
	installed.Run(t, func(libs map[dl.Name]*dl.Library) {
		file := filepath.Join(filepath.Dir(libs[dl.CUDA].File), "libnvidia-ptxjitcompiler.so.1")
		if _, err := os.Stat(file); err != nil {
			t.Skip(err)
		}
		lib, err := (&dl.Search{Paths: dl.Paths{dl.CUDA: file}, Only: true}).Open(dl.CUDA)
		if err != nil {
			t.Fatal(err)
		}
		var caller dl.Caller
		call := func(name string, args ...uintptr) int32 {
			t.Helper()
			fn, err := lib.Symbol("nvPTXCompiler" + name)
			if err != nil {
				t.Skip(err)
			}
			return int32(caller.Call(fn, args...))
		}
		text := append(PTX(), 0)
		memory := new([2]uintptr) // what C writes to
		handle, size := uintptr(unsafe.Pointer(&memory[0])), uintptr(unsafe.Pointer(&memory[1]))
		archs := []string{"sm_90"}
		if os.Getenv("PARAGON_TEST_SLOW") != "" {
			archs = []string{"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
		}
		for _, arch := range archs {
			if code := call("Create", handle, uintptr(len(text)), uintptr(unsafe.Pointer(&text[0]))); code != 0 {
				t.Fatalf("create: code %d", code)
			}
			option := append([]byte("--gpu-name="+arch), 0)
			options := &[1]uintptr{uintptr(unsafe.Pointer(&option[0]))}
			begun := time.Now()
			code := call("Compile", memory[0], 1, uintptr(unsafe.Pointer(options)))
			runtime.KeepAlive(option)
			took := time.Since(begun)
			if code != 0 {
				call("GetErrorLogSize", memory[0], size)
				log := make([]byte, memory[1]+1)
				call("GetErrorLog", memory[0], uintptr(unsafe.Pointer(&log[0])))
				t.Errorf("%s: code %d: %.2000s", arch, code, log)
				continue
			}
			if code := call("GetCompiledProgramSize", memory[0], size); code != 0 || memory[1] == 0 {
				t.Fatalf("%s: size: code %d, %d bytes", arch, code, memory[1])
			}
			image := make([]byte, memory[1])
			if code := call("GetCompiledProgram", memory[0], uintptr(unsafe.Pointer(&image[0]))); code != 0 {
				t.Fatalf("%s: program: code %d", arch, code)
			}
			for _, name := range Names() {
				if !bytes.Contains(image, []byte(".text."+name+"\x00")) {
					t.Errorf("%s: the image lacks %s", arch, name)
				}
			}
			t.Logf("%s: %d bytes in %v", arch, len(image), took)
			call("Destroy", handle)
		}
	}, dl.CUDA)
}
