package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

const learningRate = 0.02

// A job is what one worker trains with.
type job struct {
	kv       kvstore.Store
	clicks   *data.Clicks
	model    *model
	examples *kvstore.ElasticSampler

	// trainRows are the rows to train on; those behind them are for testing.
	trainRows int

	board *worker.ScalarWriter
}

// train returns the area under the ROC curve of the test rows after the last epoch.
func train(ctx context.Context, s settings) (area float64, err error) {
	if err := s.check(); err != nil {
		return 0, kvstore.Final(err)
	}
	clicks, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	defer clicks.Close()
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return 0, err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	trainRows, err := s.split(clicks.Len(), kv.NumWorkers())
	if err != nil {
		return 0, err
	}

	m, err := newModel(s.batch)
	if err != nil {
		return 0, err
	}
	defer m.program.Close()
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "adagrad", LearningRate: learningRate, Reduction: optim.Mean}); err != nil {
		return 0, err
	}
	if err := m.init(ctx, kv, s.rows.Buckets); err != nil {
		return 0, err
	}

	j := &job{kv: kv, clicks: clicks, model: m, trainRows: trainRows, board: worker.TensorBoard(filepath.Join(s.out, "tensorboard"))}
	if err := j.join(ctx, s); err != nil {
		return 0, err
	}
	defer j.board.End()
	defer leaveOnTerm(kv)()
	if err := m.pull(ctx, kv); err != nil {
		return 0, err
	}
	return j.run(ctx)
}

// open opens the rows, which are read as they are needed.
func (s *settings) open(ctx context.Context) (*data.Clicks, error) {
	cfg := s.rows
	if cfg.Buckets == 0 {
		// No two of a few million values are likely to share one.
		cfg.Buckets = math.MaxInt64
	}
	clicks, err := data.OpenClicks(ctx, s.path, cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, kvstore.Final(err)
	}
	return clicks, err
}

// split returns how many of the rows are to train on. The last tenth is for testing.
func (s *settings) split(rows, workers int) (trainRows int, err error) {
	trainRows = rows * 9 / 10
	if fit := min(trainRows/workers, rows-trainRows); s.batch > fit {
		return 0, fmt.Errorf("--batch is %d, want at most %d: %s has %d rows, nine tenths for the %d workers and one for testing", s.batch, fit, s.path, rows, workers)
	}
	return trainRows, nil
}

// join divides the rows among the workers, which makes this one a member of a running job, and
// begins the board.
func (j *job) join(ctx context.Context, s settings) (err error) {
	run := beginning(j.kv)
	j.examples, err = kvstore.NewElasticSampler(ctx, j.kv, kvstore.SamplerConfig{
		Examples: j.trainRows, Batch: s.batch, Epochs: s.epochs, Seed: 1,
		// Rows that are read and decoded together are used together.
		Order: j.clicks.Order(j.trainRows),
	})
	if err != nil {
		return err
	}
	run.Rank, run.Workers, run.Done = j.kv.Rank(), j.kv.NumWorkers(), j.examples.Steps()
	j.board.Begin(run)
	return nil
}

// beginning says whether this worker joins a running job. Ask before the sampler makes it a member.
func beginning(kv kvstore.Elastic) (run worker.Run) {
	if kv.Joining() {
		run.Joined, run.Node = true, kv.NodeID()
	}
	return run
}

// run trains all epochs.
func (j *job) run(ctx context.Context) (area float64, err error) {
	for epoch := range j.examples.Epochs() {
		if area, err = j.epoch(ctx, epoch); err != nil {
			return 0, err
		}
	}
	if err := j.examples.Err(); err != nil {
		return 0, err
	}
	if j.kv.Rank() == 0 {
		return area, tell(ctx, j.kv)
	}
	return area, nil
}

// epoch trains one epoch, and returns the area under the ROC curve of the test rows after it.
func (j *job) epoch(ctx context.Context, epoch int) (area float64, err error) {
	trainLoss, err := j.steps(ctx, epoch)
	if err != nil {
		return 0, err
	}
	loss, area, err := j.model.evaluate(ctx, j.kv, j.clicks, j.trainRows)
	if err != nil {
		return 0, err
	}
	fmt.Printf("worker %d of %d, epoch %d: Train_loss %.6f, Test_loss %.6f, Test_AUC %.4f\n", j.kv.Rank(), j.kv.NumWorkers(), epoch, trainLoss, loss, area)
	if j.kv.Rank() == 0 {
		// Launch tune reads this line.
		fmt.Printf("auc=%.6f loss=%.6f train_loss=%.6f step=%d\n", area, loss, trainLoss, epoch+1)
	}
	j.board.Scalar(j.examples.Steps(), "test/loss", loss)
	j.board.Scalar(j.examples.Steps(), "test/auc", area)
	return area, nil
}

// steps takes the steps of one epoch, and returns the mean loss of this worker's examples.
func (j *job) steps(ctx context.Context, epoch int) (loss float64, err error) {
	m, used, begin := j.model, 0, time.Now()
	var lossSum float64
	for rows := range j.examples.Batches(ctx) {
		if _, err := m.fill(ctx, j.kv, j.clicks, rows); err != nil {
			return 0, err
		}
		if err := m.step(ctx, j.examples.Pusher(), len(rows)); err != nil {
			return 0, err
		}
		if len(rows) > 0 {
			lossSum += m.program.Loss() * float64(len(rows))
			used += len(rows)
		}
		j.board.Step(worker.StepInfo{
			Epoch: epoch, Done: j.examples.Steps() + 1, Loss: m.program.Loss(), Examples: len(rows), Workers: j.kv.NumWorkers(),
			LearningRate: learningRate, GradientNorm: math.NaN(), Staleness: math.NaN(), Took: time.Since(begin),
		})
		begin = time.Now()
	}
	return lossSum / float64(max(used, 1)), j.examples.Err()
}

// tell prints what the servers hold.
func tell(ctx context.Context, kv kvstore.Store) error {
	servers, err := kv.Usage(ctx)
	if err != nil {
		return err
	}
	const mb = 1e6
	for _, u := range servers {
		fmt.Printf("server %d: %d rows made, %.1f MB of values, %.1f MB of optimizer state, %.1f MB to find rows\n",
			u.Server, u.Rows, float64(u.Values)/mb, float64(u.State)/mb, float64(u.Index)/mb)
	}
	return nil
}
