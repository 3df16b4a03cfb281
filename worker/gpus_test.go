package worker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpustat"
	"github.com/paragon-train/paragon/kvstore"
)

type fakeGPUs struct {
	reads, closes int
	err           error
}

func (f *fakeGPUs) Read() ([]gpustat.GPU, error) {
	f.reads++
	return []gpustat.GPU{{Index: 3, UUID: "GPU-a", Name: "NVIDIA H200", MemoryUsed: 1 << 30, MemoryTotal: 2 << 30, Load: 0.5, Temperature: 60, Power: 300}}, f.err
}

func (f *fakeGPUs) Close() error { f.closes++; return nil }

func TestGPUsAreShownAtTheStartAndAfterEachEpoch(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	var b strings.Builder
	f := &fakeGPUs{}
	g := &GPUs{out: &b, reader: f}
	g.Begin(Run{})
	g.Step(StepInfo{})
	g.Epoch(EpochInfo{Epoch: 2})
	for _, want := range []string{"UUID", "GPU-a", "Epoch 2: GPU 3: memory 1.0/2.0 GiB, load 50%, 60 °C, 300 W\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	f.err = errors.New("the GPU is lost")
	g.Epoch(EpochInfo{Epoch: 3})
	g.Epoch(EpochInfo{Epoch: 4})
	g.End()
	if n := strings.Count(b.String(), "the GPU is lost"); n != 1 || f.reads != 3 || f.closes != 1 {
		t.Errorf("after an error: told %d times, read %d times and closed %d times, want 1, 3 and 1", n, f.reads, f.closes)
	}
}

func TestWithoutTelemetryTheReasonIsToldOnce(t *testing.T) {
	var b strings.Builder
	g := &GPUs{out: &b, why: gpustat.ErrBuild}
	g.Begin(Run{})
	g.Epoch(EpochInfo{})
	g.End()
	if got := b.String(); strings.Count(got, "built without cgo") != 1 {
		t.Errorf("got %q", got)
	}
	b.Reset()
	g = NewGPUs(&b, []string{"cpu:0"})
	g.Begin(Run{})
	g.Epoch(EpochInfo{})
	g.End()
	if b.Len() > 0 {
		t.Errorf("of a CPU: got %q, want nothing", &b)
	}
}

// A worker's heartbeats tell how its GPUs do, by the second.
func TestGPUsAreRecorded(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	synctest.Test(t, func(t *testing.T) {
		var got [][]kvstore.GPUReport
		report := func(gpus []kvstore.GPUReport) { got = append(got, gpus) }
		f := &fakeGPUs{}
		stop := followGPUs(report, func() (gpuReader, error) { return f, nil })
		time.Sleep(2500 * time.Millisecond)
		stop()
		if f.reads != 3 || f.closes != 1 {
			t.Errorf("in 2.5 s: read %d times and closed %d times, want 3 and 1", f.reads, f.closes)
		}
		want := []kvstore.GPUReport{{MemoryUsed: 1 << 30, MemoryTotal: 2 << 30, Load: 0.5, Temperature: 60, Power: 300}}
		if len(got) != 3 || !slices.Equal(got[2], want) {
			t.Errorf("reported %v, want three times %v", got, want)
		}
		failing := &fakeGPUs{err: errors.New("the GPU is lost")}
		stop = followGPUs(report, func() (gpuReader, error) { return failing, nil })
		time.Sleep(5 * time.Second)
		stop()
		if failing.reads != 1 || failing.closes != 1 {
			t.Errorf("after an error: read %d times and closed %d times, want 1 and 1", failing.reads, failing.closes)
		}
		followGPUs(report, func() (gpuReader, error) { return nil, gpustat.ErrNoDriver })()
	})
}
