package gpus

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsAskedForIsRead(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Request
		err  string
	}{
		{"2", Request{Each: 2}, ""},
		{"0", Request{Each: -1}, ""},
		{"auto", Request{Auto: true}, ""},
		{"GPU-a,GPU-b-1", Request{UUIDs: []string{"GPU-a", "GPU-b-1"}}, ""},
		{"-1", Request{}, "want 0 to 1024"},
		{"", Request{}, "want a number"},
		{"GPU-a,1", Request{}, `"1"`},
		{"GPU-a,GPU-a", Request{}, "twice"},
	} {
		got, err := Parse(c.in)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: got error %v, want one with %q", c.in, err, c.err)
		}
		if got.Each != c.want.Each || got.Auto != c.want.Auto || !slices.Equal(got.UUIDs, c.want.UUIDs) {
			t.Errorf("%q: got %+v, want %+v", c.in, got, c.want)
		}
	}
}

func TestEachWorkerGetsItsOwn(t *testing.T) {
	four := []string{"GPU-0", "GPU-1", "GPU-2", "GPU-3"}
	for _, c := range []struct {
		name    string
		r       Request
		have    []string
		workers int

		// want is that of each worker.
		want []string

		err string
	}{
		{"one each", Request{Each: 1}, four, 3, []string{"GPU-0", "GPU-1", "GPU-2"}, ""},
		{"two each", Request{Each: 2}, four, 2, []string{"GPU-0,GPU-1", "GPU-2,GPU-3"}, ""},
		{"too many", Request{Each: 2}, four, 3, nil, "got 4 GPUs, want 6"},
		{"none at all", Request{Each: 1}, nil, 1, nil, "got no NVIDIA GPU (nvidia-smi -L lists those that the driver knows), want 1"},
		{"nobody", Request{Each: -1}, four, 2, []string{None, None}, ""},
		{"auto", Request{Auto: true}, four, 3, []string{"GPU-0", "GPU-1", "GPU-2,GPU-3"}, ""},
		{"auto without", Request{Auto: true}, nil, 2, []string{None, None}, ""},
		{"auto, too few", Request{Auto: true}, four[:1], 2, nil, "got 1 GPU, want at least 2"},
		{"by name", Request{UUIDs: []string{"GPU-3", "GPU-1", "GPU-9"}}, four, 2, []string{"GPU-1", "GPU-3"}, ""},
		{"of another host", Request{UUIDs: []string{"GPU-9"}}, four, 1, nil, "got no NVIDIA GPU"},
	} {
		for slot := range c.workers {
			share, err := c.r.Share(c.have, slot, c.workers)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: got error %v, want one with %q", c.name, err, c.err)
				}
				continue
			}
			if got := Visible(share); err != nil || got != c.want[slot] {
				t.Errorf("%s, worker %d: got %q and error %v, want %q", c.name, slot, got, err, c.want[slot])
			}
		}
	}
}

func TestTheVariableLimitsTheGPUsOfAProcess(t *testing.T) {
	all := func() ([]string, error) { return []string{"GPU-a", "GPU-b"}, nil }
	for value, want := range map[string][]string{
		"unset": {"GPU-a", "GPU-b"}, "": nil, "-1": nil, "1": {"1"}, " GPU-b , 0": {"GPU-b", "0"}, "0,-1,1": {"0"},
	} {
		lookup := func(string) (string, bool) { return value, value != "unset" }
		if got, err := Usable(lookup, all); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s=%q: got %q, %v, want %q", Variable, value, got, err, want)
		}
	}
}

func TestGPUsAreFoundInTheDriversFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "gpus")
	none := func() ([]byte, error) { return nil, &exec.Error{Name: "nvidia-smi", Err: exec.ErrNotFound} }
	if got, err := List(folder, none); err != nil || len(got) != 0 {
		t.Errorf("without a driver: got %v and error %v, want none", got, err)
	}
	write := func(bus, id string) {
		if err := os.MkdirAll(filepath.Join(folder, bus), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\nGPU UUID: \t " + id + "\nVideo BIOS: \t 96.00\nBus Location: \t " + bus + "\n"
		if err := os.WriteFile(filepath.Join(folder, bus, "information"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0000:9a:00.0", "GPU-b-2")
	write("0000:3b:00.0", "GPU-a-1")
	if got, err := List(folder, nil); err != nil || !slices.Equal(got, []string{"GPU-a-1", "GPU-b-2"}) {
		t.Errorf("got %v and error %v, want both in the order of the bus", got, err)
	}
	// One that was never used does not know its name; the driver's command wakes it.
	write("0000:9b:00.0", "GPU-????????-????-????-????-????????????")
	smi := func() ([]byte, error) {
		return []byte("GPU 0: NVIDIA H200 (UUID: GPU-a-1)\n  MIG 1g.18gb Device 0: (UUID: MIG-x)\nGPU 1: NVIDIA H200 (UUID: GPU-b-2)\nGPU 2: NVIDIA H200 (UUID: GPU-c-3)\n"), nil
	}
	if got, err := List(folder, smi); err != nil || !slices.Equal(got, []string{"GPU-a-1", "GPU-b-2", "GPU-c-3"}) {
		t.Errorf("got %v and error %v, want all three", got, err)
	}
	broken := func() ([]byte, error) { return []byte("no devices"), errors.New("exit 9") }
	if _, err := List(folder, broken); err == nil || !strings.Contains(err.Error(), "no devices") {
		t.Errorf("a command that fails: got error %v, want one with what it wrote", err)
	}
}
