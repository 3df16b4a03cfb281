package worker_test

import (
	"errors"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// Error feedback is a worker's state too: a compressed run that is stopped and resumed ends with
// the bits of one that was not.
func TestCompressedRunsResumeExactly(t *testing.T) {
	const workers = 2
	for _, c := range []kvstore.Compression{
		{Type: "2bit", Threshold: 0.25}, {Type: "1bit"}, {Type: "topk", Ratio: 0.05}, {Type: "topk", Ratio: 0.2, Pull: "bf16"}, {Type: "bf16", Pull: "fp16"},
	} {
		if !slow() && (c.Type == "1bit" || c.Type == "topk" && c.Pull == "") { // residuals like those of 2bit, and of topk with a pull
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			cfg, dir := rigConfig{examples: 43, compression: c}, t.TempDir()
			whole, _, errs := fitJob(t, "dist_sync", workers, cfg, func(int, *worker.FitConfig) {})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			_, _, errs = fitJob(t, "dist_sync", workers, cfg, func(_ int, c *worker.FitConfig) {
				stop := make(chan struct{})
				c.Checkpoint.Dir, c.Stop = dir, stop
				c.Observers = []worker.Observer{&stopAfter{step: 4, stop: stop}}
			})
			for rank, err := range errs {
				if !errors.Is(err, worker.ErrStopped) {
					t.Fatalf("rank %d: got error %v, want ErrStopped", rank, err)
				}
			}
			resume := func(_ int, c *worker.FitConfig) {
				c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true, Keep: 9}
			}
			resumed, _, errs := fitJob(t, "dist_sync", workers, cfg, resume)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for rank := range resumed {
				if i := firstDifference(resumed[rank].values(), whole[rank].values()); i >= 0 {
					t.Errorf("rank %d: value %d differs from the run that was not stopped", rank, i)
				}
			}
		})
	}
}

// The same for devices that are compressed by themselves.
func TestResidualsOfDevicesResumeExactly(t *testing.T) {
	rig := func() *fitRig {
		return newRig(t, rigConfig{devices: 2, store: newStore(t, "device"), compression: kvstore.Compression{Type: "topk", Ratio: 0.05}})
	}
	whole, stopped, resumed := rig(), rig(), rig()
	if _, err := worker.Fit(t.Context(), whole.cfg); err != nil {
		t.Fatal(err)
	}
	dir, stop := t.TempDir(), make(chan struct{})
	stopped.cfg.Stop, stopped.cfg.Checkpoint.Dir = stop, dir
	stopped.cfg.Observers = []worker.Observer{&stopAfter{step: 5, stop: stop}}
	if _, err := worker.Fit(t.Context(), stopped.cfg); !errors.Is(err, worker.ErrStopped) {
		t.Fatalf("got error %v, want ErrStopped", err)
	}
	resumed.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
	if _, err := worker.Fit(t.Context(), resumed.cfg); err != nil {
		t.Fatal(err)
	}
	if i := firstDifference(resumed.values(), whole.values()); i >= 0 {
		t.Errorf("value %d differs from the run that was not stopped", i)
	}
}

// A run may go on with another compression, or none: its first push begins without residuals.
func TestResumeWithAnotherCompression(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []kvstore.Compression{{Type: "topk"}, {Type: "2bit"}, {}, {Type: "topk", Ratio: 0.5}} {
		r := newRig(t, rigConfig{store: newStore(t, "dist_sync"), compression: c})
		r.cfg.Epochs, r.cfg.Checkpoint = i+1, worker.CheckpointConfig{Dir: dir, Resume: true}
		if epochs, err := worker.Fit(t.Context(), r.cfg); err != nil || len(epochs) != 1 {
			t.Errorf("epoch %d with %v: got %d epochs and error %v, want 1", i, c, len(epochs), err)
		}
	}
}
