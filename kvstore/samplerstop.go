package kvstore

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/sampler"
)

// A SamplerStop is why all workers of an ElasticSampler stop before the last epoch.
type SamplerStop int

const (
	// NoStop: they go on.
	NoStop = SamplerStop(rollcall.NoStop)
	// StopEnd: a worker was told to end, and cannot leave alone: AskStop was called. The program
	// ends with code 143, as after SIGTERM.
	StopEnd = SamplerStop(rollcall.StopEnd)
	// StopCheckpoint: the job was asked to stop with a checkpoint. Stopper says what the program
	// does then.
	StopCheckpoint = SamplerStop(rollcall.StopCheckpoint)
)

// samplerStopping is how far an ElasticSampler has come on the way to an early end.
type samplerStopping struct {
	// asked says that AskStop was called.
	asked atomic.Bool
	// agreed is what all workers have agreed on after the last step.
	agreed SamplerStop
}

// join takes over what the others have agreed on, which a worker that joins does not know else.
func (t *samplerStopping) join(stop bool) {
	if stop {
		t.agreed = StopEnd
	}
}

// AskStop asks all workers to stop after a step: this one was told to end, and the job cannot go on
// without it (ErrNeeded). It returns at once, and any goroutine may call it. Next then has a turn
// with Stop on all workers. It does nothing without SamplerConfig.Stops.
func (s *ElasticSampler) AskStop() { s.stopping.asked.Store(true) }

// wish is what this worker knows of a stop.
func (s *ElasticSampler) wish() SamplerStop {
	if !s.cfg.Stops {
		return NoStop
	}
	select {
	case <-s.job.StopRequested():
		return StopCheckpoint
	default:
	}
	if s.stopping.asked.Load() {
		return StopEnd
	}
	return NoStop
}

// callRoll finds out with all workers whether a change is due after this step, and whether all stop.
// Where the workers have no step in common each stops by itself.
func (s *ElasticSampler) callRoll(ctx context.Context) (change bool, err error) {
	if s.roll == nil {
		s.stopping.agreed = s.wish()
		return false, nil
	}
	change, stop, err := s.roll.CallStop(ctx, rollcall.Stop(s.wish()))
	if !s.cfg.Stops {
		stop = rollcall.NoStop
	}
	s.stopping.agreed = max(s.stopping.agreed, SamplerStop(stop))
	return change, err
}

// finishStop ends a turn with Stop: all have come here, and none was lost on the way.
func (s *ElasticSampler) finishStop(ctx context.Context) error {
	change, err := s.callRoll(ctx)
	switch {
	case err == nil && change:
		err = s.change(ctx)
	case err == nil:
		s.phase = phaseStopped
	}
	if err != nil {
		return fmt.Errorf("kvstore: elastic sampler: epoch %d, stopping after step %d: %w", s.epoch, s.step, err)
	}
	return nil
}

// Cuts say what of the epoch was used by the steps that are done: SamplerConfig.Cuts of a run that goes
// on from here. In a turn with Stop, whatever follows, all workers have the same; before a step a
// worker may be lost that has not done the last one. There are none in an asynchronous store, where
// a worker does not know what others have used.
func (s *ElasticSampler) Cuts() ([]sampler.Cut, error) {
	if s.roll == nil || s.epoch >= s.cfg.Epochs {
		return nil, nil
	}
	cut := sampler.Cut{Parts: s.workers, Used: make([]int, s.workers)}
	taken := int(s.step-s.from) * s.cfg.Batch
	for rank := range cut.Used {
		part, err := s.part(rank)
		if err != nil {
			return nil, err
		}
		cut.Used[rank] = min(taken, part.Len())
	}
	if taken == 0 {
		return slices.Clone(s.cuts), nil
	}
	return append(slices.Clone(s.cuts), cut), nil
}
