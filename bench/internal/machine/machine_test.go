package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadsWhatTheSystemTells(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/cpuinfo":                                  "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor @ 2.10GHz\nflags\t\t: fpu avx2 avx512f amx_tile amx_bf16 hypervisor\n",
		"proc/sys/kernel/osrelease":                     "6.1.0\n",
		"proc/sys/net/ipv4/tcp_congestion_control":      "bbr\n",
		"sys/devices/system/cpu/cpu0/cache/index3/size": "32768K\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m := read(root, 2)
	if got, want := m.Name(), "intel-xeon-amx-bf16-2-cores"; got != want {
		t.Errorf("got name %q, want %q", got, want)
	}
	for _, want := range []string{"Intel(R) Xeon(R)", "2 cores", "amx_bf16 amx_tile avx512f avx2", "32 MiB", "virtual machine", "6.1.0", "TCP with bbr"} {
		if !strings.Contains(m.String(), want) {
			t.Errorf("got %q, want %q in it", m, want)
		}
	}
	var head bytes.Buffer
	m.WriteHead(&head, "bench/x")
	if want := "\nmachine: " + m.String() + "\n"; !strings.Contains(head.String(), want) {
		t.Errorf("got head\n%swant a line %q", &head, want)
	}
	folder := filepath.Join(root, "results")
	if err := m.Save(folder, "kv", head.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "kv-intel-xeon-amx-bf16-2-cores.txt")); err != nil {
		t.Error(err)
	}
}

// A system that tells nothing gives a name all the same.
func TestNamesAMachineThatTellsNothing(t *testing.T) {
	m := read(t.TempDir(), 4)
	if m.Name() == "" || !strings.Contains(m.Name(), "4-cores") {
		t.Errorf("got name %q, want one with the number of cores", m.Name())
	}
}
