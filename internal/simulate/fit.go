package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/countmodel"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// counts says that a key's values are sums of whole numbers.
func (p *Plan) counts(key string) bool {
	return p.Program == Sums || p.Program == Counts && strings.HasPrefix(key, "count")
}

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
	feed, err := countmodel.NewFeed(program, p.Batch, kv.NumWorkers(), kv.Rank(), p.Seed)
	if err != nil {
		return err
	}
	pace := rand.New(rand.NewPCG(p.Seed, uint64(rank)))
	feed.Before = func(ctx context.Context) error { return sleep(ctx, time.Duration(pace.Int64N(int64(compute)))) }
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: p.Epochs})
	return err
}

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
