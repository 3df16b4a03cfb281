// Package machine says what a benchmark was built from and what machine it runs on: results of
// several machines stand side by side, and what decides between them is the processor and its
// instructions, the number of cores, the last-level cache, the kernel and its congestion control.
package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// A Machine is what the system tells of itself; fields that it does not tell are empty.
type Machine struct {
	CPU string
	// Features are the instructions that the programs choose between, as the kernel names them.
	Features []string
	Cores    int
	// LLC is how many bytes the last-level cache has.
	LLC    int64
	Kernel string
	// Congestion is TCP's congestion control.
	Congestion string
	Virtual    bool
}

// told are the features that are named, most telling first.
var told = []string{"amx_bf16", "amx_int8", "amx_tile", "avx512_bf16", "avx512f", "avx2", "vaes", "bf16", "i8mm", "sve", "asimd"}

// Here is this machine.
func Here() Machine {
	return read("/", runtime.NumCPU())
}

// read reads the system's files below a folder.
func read(root string, cores int) Machine {
	file := func(path string) string {
		b, _ := os.ReadFile(filepath.Join(root, path))
		return strings.TrimSpace(string(b))
	}
	m := Machine{Cores: cores, Kernel: file("proc/sys/kernel/osrelease"), Congestion: file("proc/sys/net/ipv4/tcp_congestion_control")}
	for line := range strings.Lines(file("proc/cpuinfo")) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "model name":
			m.CPU = value
		case "flags", "Features":
			all := strings.Fields(value)
			m.Virtual = slices.Contains(all, "hypervisor")
			m.Features = slices.DeleteFunc(slices.Clone(told), func(f string) bool { return !slices.Contains(all, f) })
		}
	}
	for _, index := range []string{"index3", "index2"} {
		text := file("sys/devices/system/cpu/cpu0/cache/" + index + "/size")
		if n, err := strconv.ParseInt(strings.TrimSuffix(text, "K"), 10, 64); err == nil {
			m.LLC = n << 10
			break
		}
	}
	return m
}

// String is one line for people.
func (m Machine) String() string {
	parts := []string{cmp.Or(m.CPU, runtime.GOARCH), fmt.Sprintf("%d cores", m.Cores)}
	if len(m.Features) > 0 {
		parts = append(parts, strings.Join(m.Features, " "))
	}
	if m.LLC > 0 {
		parts = append(parts, fmt.Sprintf("%d MiB of last-level cache", m.LLC>>20))
	}
	if m.Virtual {
		parts = append(parts, "virtual machine")
	}
	if m.Kernel != "" {
		parts = append(parts, runtime.GOOS+" "+m.Kernel)
	}
	if m.Congestion != "" {
		parts = append(parts, "TCP with "+m.Congestion)
	}
	return strings.Join(parts, ", ")
}

// Name is short and fit for the name of a file: processor, best instructions, cores.
func (m Machine) Name() string {
	name := strings.NewReplacer("(R)", "", "(TM)", "", "(r)", "", "(tm)", "", " CPU", "", " Processor", "").Replace(cmp.Or(m.CPU, runtime.GOARCH))
	name, _, _ = strings.Cut(name, "@")
	if len(m.Features) > 0 {
		name += " " + m.Features[0]
	}
	name += fmt.Sprintf(" %d cores", m.Cores)
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	}), "-")
}

// WriteHead writes the lines that go ahead of results in the format of Go's benchmarks.
func (m Machine) WriteHead(w io.Writer, pkg string) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/paragon-train/paragon/%s\ncpu: %s\nmachine: %s\ncommit: %s\n", runtime.GOOS, runtime.GOARCH, pkg, cmp.Or(m.CPU, runtime.GOARCH), m, Commit())
}

// Commit is what the program was built from, as far as the build tells.
func Commit() string {
	revision, modified := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = "-dirty"
			}
		}
	}
	return revision + modified
}

// Save writes results to a file in the folder that is named for the program and the machine.
func (m Machine) Save(folder, program string, results []byte) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, program+"-"+m.Name()+".txt"), bytes.TrimLeft(results, "\n"), 0o666)
}
