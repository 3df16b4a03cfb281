package fake_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

// asChild has the test binary be a program that prints the GPUs it finds.
const asChild = "PARAGON_FAKE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func child() error {
	lib, err := new(dl.Search).Open(dl.CUDA)
	if err != nil {
		return err
	}
	driver, err := drv.Open(lib)
	if err != nil {
		return err
	}
	infos, err := driver.Devices()
	if err != nil {
		return err
	}
	for _, info := range infos {
		fmt.Println(info)
	}
	ctx, err := driver.NewContext(len(infos) - 1)
	if err != nil {
		return err
	}
	if err := ctx.Do(func() error { _, err := ctx.Malloc(2 << 20); return err }); err != nil {
		fmt.Println(err)
	}
	return ctx.Close()
}

// A child process finds the fake libraries, and is set up, by its environment.
func TestChildProcessesAreSetUpByTheEnvironment(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), fake.Environ(t)...), asChild+"=1", "FAKECUDA_DEVICES=3", "FAKECUDA_MEMORY=1048576", "FAKECUDA_TRACE_FILE="+trace)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"cuda:2 Fake GPU 2, 9.0, 132 SMs, 0.0 GiB", "cuMemAlloc_v2 of 2097152 bytes on cuda:2: CUDA_ERROR_OUT_OF_MEMORY"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the child says\n%swant %q", out, want)
		}
	}
	lines, err := os.ReadFile(trace)
	if err != nil || !strings.Contains(string(lines), "cuDevicePrimaryCtxRetain 2\ncuMemAlloc_v2 2097152: out of memory\n") {
		t.Errorf("the trace is %q (%v)", lines, err)
	}
}

// A machine is as new, whatever the test before it did.
func TestMachineIsNew(t *testing.T) {
	for range 2 {
		t.Run("", func(t *testing.T) {
			m := fake.New(t)
			if n, live := m.Count("calls"), m.Live(); n != 0 || len(live) != 0 {
				t.Errorf("%d calls were made and %v is live, want nothing", n, live)
			}
			m.Set("trace", 1)
			ctx := m.Context(0)
			if err := ctx.Do(func() error { _, err := ctx.NewStream(0); return err }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(m.Trace(), "\n"); got != "cuDevicePrimaryCtxRetain 0\ncuStreamCreateWithPriority 0: s1" {
				t.Errorf("trace: %s", got)
			}
		})
	}
}

// What a test leaves undone is seen.
func TestComplaintsFailATest(t *testing.T) {
	m := fake.New(t)
	ctx := m.Context(0)
	if err := ctx.Do(func() error { return ctx.DestroyEvent(7) }); err == nil {
		t.Error("an event that is not one was destroyed")
	}
	if c := m.Complaints(); len(c) != 1 || !strings.Contains(c[0], "cuEventDestroy_v2: handle 0x7 is not one") {
		t.Errorf("complaints: %q", c)
	}
	if c := m.Complaints(); c != nil {
		t.Errorf("complaints are there again: %q", c)
	}
}
