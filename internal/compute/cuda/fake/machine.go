package fake

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// A Machine is a computer with fake GPUs. There is one for each process: tests with a Machine do
// not run in parallel. Its methods may be called together.
//
// In tests of a GPU itself (package gputest) it is the real one: there are no settings beyond those
// of order, no counters, and no complaints.
type Machine struct {
	t      testing.TB
	paths  dl.Paths
	lib    *dl.Library // nil for the real one
	search *dl.Search

	mu     sync.Mutex
	caller dl.Caller // guarded by mu
}

// New makes the machine as it is when a process starts. When the test ends, after what it cleans up
// itself, no complaint must be left.
func New(t testing.TB) *Machine {
	t.Helper()
	if gputest.On() {
		_, search, err := gputest.Open()
		gputest.Must(t, err)
		return &Machine{t: t, search: search}
	}
	m := &Machine{t: t, paths: Libraries(t)}
	m.search = &dl.Search{Paths: m.paths, Only: true}
	lib, err := m.Search().Open(dl.CUDA)
	if err != nil {
		t.Fatal(err)
	}
	m.lib = lib
	if int32(m.call("fakecuda_reset")) != 0 {
		t.Fatal("fake: another test left a context open")
	}
	t.Cleanup(func() {
		if c := m.Complaints(); len(c) > 0 {
			t.Errorf("the fake libraries complain:\n%s", strings.Join(c, "\n"))
		}
	})
	return m
}

// Environ is what a child process finds the fake libraries by, as os/exec takes it; FAKECUDA_
// variables may be added.
func Environ(t testing.TB) []string {
	t.Helper()
	var env []string
	paths := Libraries(t)
	for _, name := range dl.Names {
		path := paths[name]
		if path == "" {
			path = filepath.Join(t.TempDir(), "none") // not the machine's own
		}
		env = append(env, name.Variable()+"="+path)
	}
	return env
}

// Search finds the fake libraries and no others.
func (m *Machine) Search() *dl.Search { search := *m.search; return &search }

// Paths are the paths of the fake libraries.
func (m *Machine) Paths() dl.Paths { return m.paths }

// Driver opens the driver.
func (m *Machine) Driver() *drv.Driver {
	m.t.Helper()
	lib, err := m.lib, error(nil)
	if lib == nil {
		lib, err = m.search.Open(dl.CUDA)
		gputest.Must(m.t, err)
	}
	d, err := drv.Open(lib)
	gputest.Must(m.t, err)
	return d
}

// Context takes a GPU into use until the test ends.
func (m *Machine) Context(ordinal int) *drv.Context {
	m.t.Helper()
	if m.lib == nil && ordinal == 0 {
		ordinal = gputest.Number()
	}
	c, err := m.Driver().NewContext(ordinal)
	gputest.Must(m.t, err)
	m.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			m.t.Error(err)
		}
	})
	return c
}

// Set changes a setting; the package comment lists them. Order and poison count for what is done
// from then on.
func (m *Machine) Set(key string, value int64) {
	m.t.Helper()
	if m.lib == nil {
		m.setReal(key, value)
		return
	}
	text := append([]byte(key), 0)
	m.call("fakecuda_set", uintptr(unsafe.Pointer(&text[0])), uintptr(value))
}

// setReal skips a test that needs what a real machine has not.
func (m *Machine) setReal(key string, value int64) {
	m.t.Helper()
	switch key {
	case "seed", "order", "poison", "trace":
	case "devices":
		devices, err := m.Driver().Devices()
		gputest.Must(m.t, err)
		if len(devices) < int(value) {
			m.t.Skipf("this machine has %d GPUs, and the test takes %d", len(devices), value)
		}
	default:
		m.t.Skipf("a real GPU has no setting %s", key)
	}
}

// Count reads a counter: calls, launches, graph_launches, pending (work that is not done), or
// live_allocations, live_hosts (pinned memory), live_streams, live_events, live_graphs, live_execs,
// live_modules: what was not given back. Libraries add their own.
func (m *Machine) Count(key string) int64 {
	if m.lib == nil {
		return 0
	}
	text := append([]byte(key), 0)
	return int64(m.call("fakecuda_get", uintptr(unsafe.Pointer(&text[0]))))
}

// Live is what was not given back, by kind. Kinds of which nothing is live are not in it.
func (m *Machine) Live() map[string]int64 {
	live := make(map[string]int64)
	for _, kind := range []string{"allocations", "hosts", "streams", "events", "graphs", "execs", "modules"} {
		if n := m.Count("live_" + kind); n != 0 {
			live[kind] = n
		}
	}
	return live
}

// Complaints returns what callers did wrong since the last time, and forgets it.
func (m *Machine) Complaints() []string { return m.lines("complaints") }

// Trace returns the calls since the last time, one a line, and forgets them. The setting "trace"
// has them collected.
func (m *Machine) Trace() []string { return m.lines("trace") }

// Leaks says what contexts still had when they ended.
func (m *Machine) Leaks() []string { return m.lines("leaks") }

func (m *Machine) lines(which string) []string {
	if m.lib == nil {
		return nil
	}
	name := append([]byte(which), 0)
	for room := 1 << 16; ; {
		buffer := make([]byte, room)
		n := int(m.call("fakecuda_text", uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&buffer[0])), uintptr(room)))
		if n > room {
			room = 2 * n
			continue
		}
		if n == 0 {
			return nil
		}
		return strings.Split(strings.TrimSuffix(string(buffer[:n]), "\n"), "\n")
	}
}

// call calls a function of the fake driver.
//
//go:uintptrescapes
func (m *Machine) call(name string, args ...uintptr) uintptr {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn, err := m.lib.Symbol(name)
	if err != nil {
		m.t.Fatal(err)
	}
	return m.caller.Call(fn, args...)
}
