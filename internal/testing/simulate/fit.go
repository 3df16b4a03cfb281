package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/testing/countmodel"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// runFit is a worker that trains.
func (j *job) runFit(ctx context.Context, n *node, rank int) (err error) {
	p := &j.plan
	kv, err := j.join(ctx, n, rank)
	if err != nil {
		j.absent(rank)
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	program, trainer, err := j.newTrainer(ctx, kv)
	if j.begun(rank); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trainer.Close(), program.Close()) }()
	feed, err := countmodel.NewFeed(program, p.Batch, kv.NumWorkers(), kv.Rank(), p.Seed, sampler.Ordered(p.order()))
	if err != nil {
		return err
	}
	pace := rand.New(rand.NewPCG(p.Seed, uint64(rank)))
	feed.Before = func(ctx context.Context) error { return sleep(ctx, time.Duration(pace.Int64N(int64(compute)))) }
	_, err = worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: p.Epochs, Observers: []worker.Observer{member{j: j, n: n}},
		OnUsed: func(u worker.Used) { j.used(n, u) }, Leave: n.told,
	})
	if errors.Is(err, worker.ErrRemoved) {
		return nil
	}
	return err
}

// A member notes when a worker counts.
type member struct {
	// Observer is nil: only the methods below are called.
	worker.Observer
	j *job
	n *node
}

func (m member) Begin(worker.Run)     { m.j.counts(m.n) }
func (member) Step(worker.StepInfo)   {}
func (member) Epoch(worker.EpochInfo) {}
func (member) End()                   {}

func (j *job) newTrainer(ctx context.Context, kv kvstore.Store) (*nn.Program, *worker.Trainer, error) {
	program, err := countmodel.Compile(j.plan.Examples)
	if err != nil {
		return nil, nil, err
	}
	optimizer := countmodel.Optimizer
	if j.plan.Program == Floats {
		optimizer = optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}
	}
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: optimizer, Logger: j.logger("trainer")})
	if err != nil {
		return nil, nil, errors.Join(err, program.Close())
	}
	return program, trainer, nil
}

// used takes what a worker says that a share's acknowledged steps have used.
func (j *job) used(n *node, u worker.Used) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := share{u.Epoch, u.Division, u.Part}
	if told, ok := j.tells[s]; ok && !slices.Equal(told, u.Examples) {
		j.odd = append(j.odd, fmt.Sprintf("%s says that of epoch %d, division %d, part %d the examples %v were used, others say %v", n.name, u.Epoch, u.Division, u.Part, u.Examples, told))
	}
	j.tells[s] = slices.Clone(u.Examples)
}

// checkUsed checks that what workers say of examples is each once an epoch.
func (j *job) checkUsed(c *checks) {
	for _, line := range j.odd {
		c.fail("%s", line)
	}
	times := make([]map[int]int, j.plan.Epochs)
	// Each share counts alike, so the order of the map does not matter.
	for s, list := range j.tells {
		if s.epoch >= len(times) {
			c.fail("workers tell of epoch %d, want %d epochs", s.epoch, len(times))
			continue
		}
		if times[s.epoch] == nil {
			times[s.epoch] = map[int]int{}
		}
		for _, i := range list {
			times[s.epoch][i]++
		}
	}
	for epoch, of := range times {
		for i := range j.plan.Examples {
			if of[i] != 1 {
				c.fail("workers say that example %d was used %d times in epoch %d", i, of[i], epoch)
			}
		}
	}
}
