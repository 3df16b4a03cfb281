package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// membership is this worker's part in a job whose workers may change. (worker.Fit does all of this, and hands out again no more than
// needs be where a worker is lost; this loop hands out again all that a lost worker had of what was left at the last change.)
type membership struct {
	kv    kvstore.Store
	job   kvstore.Elastic
	epoch int // with which this worker begins
	steps uint64
	flag  []float32
}

// join returns once this worker counts: at once if it was there from the start.
func join(ctx context.Context, kv kvstore.Store) (*membership, error) {
	m := &membership{kv: kv, job: kv, flag: make([]float32, 1)}
	if err := kv.InitAverage(ctx, "flag", m.flag); err != nil {
		return nil, err
	}
	if err := m.job.Ready(ctx); err != nil {
		return nil, err
	}
	division := m.job.Division()
	m.epoch, m.steps = int(division.Epoch), division.Steps
	return m, nil
}

// leaveOnTerm asks to leave when somebody tells this process to end by SIGTERM: afterStep then ends with ErrRemoved. Where the job does not
// go on without this worker the process ends at once. What it returns ends that.
func (m *membership) leaveOnTerm() (forget func()) {
	term, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		select {
		case <-term:
		case <-done:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := m.job.AskLeave(ctx, "SIGTERM"); err != nil {
			fmt.Fprintln(os.Stderr, "widedeep:", err)
			os.Exit(143)
		}
	}()
	return func() {
		signal.Stop(term)
		close(done)
	}
}

// cuts says what was used of an epoch before the last change.
func (m *membership) cuts(epoch int) (cuts []sampler.Cut) {
	division := m.job.Division()
	if division.Epoch != uint64(epoch) {
		return nil
	}
	for _, c := range division.Cuts {
		cut := sampler.Cut{Parts: int(c.Parts)}
		for _, n := range c.Used {
			cut.Used = append(cut.Used, int(min(n, 1<<30))) // more than there are stands for all
		}
		cuts = append(cuts, cut)
	}
	return slices.Clip(cuts)
}

// afterStep lets workers come and go: all raise a flag with a step, see the same sum, and so make a change after the same step.
func (m *membership) afterStep(ctx context.Context, epoch, used int) (changed bool, err error) {
	m.steps++
	if m.flag[0] = 0; m.job.Pending() != 0 {
		m.flag[0] = 1
	}
	flag := [][]float32{m.flag}
	if err := m.kv.PushPull(ctx, "flag", flag, flag); err != nil || m.flag[0] == 0 {
		return false, err
	}
	change, err := m.job.AwaitPending(ctx)
	if err != nil {
		return false, err
	}
	if err := m.job.Arrive(ctx, kvstore.Arrival{Change: change, Steps: m.steps, Epoch: uint64(epoch), Used: uint64(used)}); err != nil {
		return false, err
	}
	fmt.Printf("worker %d of %d now, epoch %d, %d steps in all\n", m.kv.Rank(), m.kv.NumWorkers(), epoch, m.steps)
	return true, nil
}
