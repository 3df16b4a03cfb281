package fake_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

// An idle GPU takes its time and does nothing, but for copies where they are asked for.
func TestAnIdleGPUTakesTimeAndDoesNothing(t *testing.T) {
	for _, copies := range []bool{true, false} {
		m := fake.New(t)
		m.Set("memory", 1<<40)
		m.Set("node_ns", 20e6)
		m.Set("idle", 2)
		if copies {
			m.Set("idle", 1)
		}
		c, err := m.Driver().NewContext(0)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Do(func() error { return leaveIdle(t, c, copies) })
		if err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func leaveIdle(t *testing.T, c *drv.Context, copies bool) error {
	s, err := c.NewStream(0)
	if err != nil {
		return err
	}

	// The memory is more than there is, and never touched.
	p, err := c.Malloc(64 << 30)
	if err != nil {
		return err
	}
	host, err := c.HostAlloc(8)
	if err != nil {
		return err
	}
	copy(host, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	if err := c.CopyToDevice(p, unsafe.Pointer(&host[0]), 4, s); err != nil {
		return err
	}
	if err := c.CopyToHost(unsafe.Pointer(&host[4]), p, 4, s); err != nil {
		return err
	}
	if err := c.BeginCapture(s); err != nil {
		return err
	}
	for range 3 {
		if err := c.Memset8(p, 9, 4, s); err != nil {
			return err
		}
	}
	g, err := c.EndCapture(s)
	if err != nil {
		return err
	}
	x, err := c.Instantiate(g)
	if err != nil {
		return err
	}
	event, err := c.NewEvent(false)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := c.GraphLaunch(x, s); err != nil {
		return err
	}
	if err := c.Record(event, s); err != nil {
		return err
	}
	if launched := time.Since(begin); launched > 30*time.Millisecond {
		t.Errorf("a launch of 60 ms held the caller up for %v", launched)
	}
	if err := c.SynchronizeEvent(event); err != nil {
		return err
	}
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("three nodes of 20 ms were over after %v", took)
	}
	want := byte(5)
	if copies {
		want = 1
	}
	if host[4] != want {
		t.Errorf("copies %v: the host's memory is %v, want %d at place 4", copies, host, want)
	}
	for _, err := range []error{c.DestroyGraphExec(x), c.DestroyGraph(g), c.DestroyEvent(event), c.HostFree(host), c.Free(p), c.DestroyStream(s)} {
		if err != nil {
			return err
		}
	}
	return nil
}
