package kvstore

import (
	"context"
	"errors"
)

// A SamplerTurn is what an ElasticSampler has come to, for a program that asks for one step after
// another: see ElasticSampler.Next.
type SamplerTurn struct {
	// Epoch is that of the step, and Step the step's number in it, from 0.
	Epoch int
	Step  uint64
	// Steps is the number of steps done in all, those before this worker joined included.
	Steps uint64

	// Left is how many steps the division has from this one on. 0: there is no step; every
	// worker has come to the end of Epoch, and Next begins the next one.
	Left int
	// Over says that there is no step and that no epoch is left.
	Over bool

	// Division counts the divisions in which this worker had a share. With another number what
	// Examples gave before is void.
	Division uint64
	// First is the place in this worker's share of the division of the first example of the
	// step, and Size how many it has. A worker whose share is used up while others go on has
	// none, and contributes with weight 0.
	First, Size int
	// Share is how many examples this worker's share of the division has.
	Share int
	// GlobalBatch is how many examples the step has on all workers, should none be lost in it.
	GlobalBatch int

	// Joined says that workers have joined with this division. They need what only workers
	// know. Survivor is the lowest rank of a worker that had come to the division before it, -1
	// if none is left. All workers get the same. A division in which no step is left may have
	// Joined, too.
	Joined   bool
	Survivor int

	// Stop says that all workers stop here, behind Steps steps, and why: see ElasticSampler.AskStop.
	// It comes only with SamplerConfig.Stops. The turn has no step. What resumes the run is written
	// in it, where there is a place for it; Next then says whether that is complete, as Stopped,
	// or has another turn with Stop, because a worker was lost meanwhile: then it is written anew.
	Stop SamplerStop
	// Stopped says that all workers have come here with what they wrote in the turn with Stop.
	Stopped bool
}

// A samplerPhase says where a sampler is that is driven by Next.
type samplerPhase int

const (
	// phaseNone: Next was not called.
	phaseNone samplerPhase = iota
	// phaseBetween: the next step has not begun.
	phaseBetween
	// phaseStep: a step is under way.
	phaseStep
	// phaseEpoch: all workers have come to the end of an epoch.
	phaseEpoch
	// phaseStop: all workers stop, and write what resumes the run.
	phaseStop
	// phaseStopped: they have.
	phaseStopped
)

// Next ends the step under way and begins the next one. It is for a program that cannot be a loop
// over Epochs and Batches, such as one that is asked from outside for one step after another; all
// that they promise holds. All pushes and pulls of a step have returned before it. At the end of an
// epoch there is a turn without a step, and one more behind the last epoch. An error ends the
// sampler: Err has it, too. It is ErrRemoved where this worker was asked to leave. An error of ctx
// is one as well, so ctx is that of the whole work. Epochs and Batches cannot be called after it.
//
//	for {
//		turn, err := examples.Next(ctx)
//		if err != nil || turn.Over {
//			return err
//		}
//		batch := examples.Examples(turn.First, make([]int, turn.Size))
//		// ... as in a loop over Batches; turn.Left is 0 at the end of an epoch ...
//	}
func (s *ElasticSampler) Next(ctx context.Context) (SamplerTurn, error) {
	if s.inEpochs || s.inBatches {
		s.fail("epoch %d: step %d: Next was called within a loop over Epochs or Batches", s.epoch, s.step)
	}
	switch {
	case s.err != nil:
	case s.phase == phaseStep:
		s.err = s.finish(ctx)
	case s.phase == phaseEpoch:
		s.nextEpoch()
	case s.phase == phaseStop:
		s.err = s.finishStop(ctx)
	}
	if s.err != nil {
		return SamplerTurn{}, s.err
	}
	if s.phase == phaseStopped {
		return s.turn(), nil
	}
	s.phase = phaseBetween
	switch {
	case s.stopping.agreed != NoStop:
		s.phase = phaseStop
	case s.epoch >= s.cfg.Epochs:
	case s.step >= s.last:
		s.phase = phaseEpoch
	default:
		s.phase = phaseStep
		s.begin()
	}
	return s.turn(), nil
}

// turn describes where Next has come to.
func (s *ElasticSampler) turn() SamplerTurn {
	t := SamplerTurn{
		Epoch: s.epoch, Step: s.step, Steps: s.steps, Over: s.epoch >= s.cfg.Epochs,
		Division: s.divisions, First: s.used, Share: s.own.Len(), Joined: s.joined, Survivor: s.survivor,
	}
	if s.phase == phaseStep {
		t.Left, t.Size, t.GlobalBatch = int(s.last-s.step), len(s.batch), s.globalBatch()
	}
	if s.phase == phaseStop || s.phase == phaseStopped {
		t.Stop, t.Stopped = s.stopping.agreed, s.phase == phaseStopped
	}
	return t
}

// globalBatch is how many examples the step has on all workers. The lengths of shares differ by one
// at most, and those of lower ranks are longer.
func (s *ElasticSampler) globalBatch() int {
	if s.roll == nil {
		return len(s.batch)
	}
	each, longer := s.whole/s.workers, s.whole%s.workers
	taken := int(s.step-s.from) * s.cfg.Batch
	of := func(share int) int { return min(s.cfg.Batch, max(0, share-taken)) }
	return longer*of(each+1) + (s.workers-longer)*of(each)
}

// Examples fills list with examples of this worker's share of the division, from the place first
// on, and returns it, shorter at the end of the share. It uses none of them: a program that loads
// examples ahead asks for those of later steps. The next step has those behind the current one's.
// What was loaded is void with the next division. Reading on where the last call ended costs least.
func (s *ElasticSampler) Examples(first int, list []int) []int {
	if s.epoch >= s.cfg.Epochs || first < 0 || first >= s.own.Len() {
		return list[:0]
	}
	if s.ahead == nil || s.aheadAt != first {
		s.ahead, s.aheadAt = s.own.Cursor(s.epoch, first), first
	}
	n := s.ahead.Next(list)
	s.aheadAt += n
	return list[:n]
}

var errDriven = errors.New("Next was called before; a sampler is driven by Next alone, or by loops over Epochs and Batches")

// driven ends a loop of a sampler that is driven by Next.
func (s *ElasticSampler) driven(loop string) bool {
	if s.phase == phaseNone {
		return false
	}
	s.fail("epoch %d: step %d: %s: %w", s.epoch, s.step, loop, errDriven)
	return true
}
