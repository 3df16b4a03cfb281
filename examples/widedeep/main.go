// Command widedeep trains a wide and deep model on rows of clicks. Its embedding tables live on the
// servers, and each step pulls and pushes only the rows that its batch touches. Their vocabulary is
// open: a value's 63-bit hash names its row, which is made when it is first trained on; --buckets N
// hashes the values into tables of N rows instead, where some share one.
//
//	widedeep --data data/criteo_train_head.txt.gz
//	launch -n 2 -s 2 -- widedeep --data data/criteo_train_head.txt.gz
//	launch -n 8 -s 4 -- widedeep --data s3://clicks/day=1 --batch 2048
//
// The rows are read from where they lie, in blocks, so they need not fit in memory: text as Criteo
// publishes it, torchrec's arrays, or Parquet, in a file or a folder of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/data"
	_ "github.com/paragon-train/paragon/data/formats" // Parquet and zstd
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/version"
	"github.com/paragon-train/paragon/worker"
)

func main() {
	path := flag.String("data", "", "path or URL of rows of Criteo's sets, a file or a folder: text, compressed or not, torchrec's .npy files, or Parquet")
	cache := flag.Int64("cache", 256, "MB of rows that are kept decoded in memory")
	disk := flag.String("cache-dir", "", "folder that keeps what was read over a network for the next epoch and the next run")
	batch := flag.Int("batch", 128, "rows per step")
	epochs := flag.Int("epochs", 1, "passes over the data; after one pass the model overfits a small file")
	out := flag.String("out", "out", "folder for TensorBoard's files, under tensorboard")
	buckets := flag.Int64("buckets", 0, "rows of the table that values are hashed into; 0: each value has its own row, made on first use")
	version.AddFlag(flag.CommandLine)
	kvstore.ParseFlags()
	var err error
	if flag.NArg() > 0 {
		err = kvstore.Final(fmt.Errorf("got %q after the flags, want flags only; see --help", flag.Args()))
	} else {
		_, err = train(context.Background(), *path, *out, *batch, *epochs, data.CriteoConfig{Buckets: *buckets, CacheBytes: *cache << 20, DiskCache: *disk})
	}
	switch {
	case errors.Is(err, kvstore.ErrRemoved):
		fmt.Fprintln(os.Stderr, "widedeep: removed from the job on request; the other workers continue")
	case err != nil:
		fmt.Fprintln(os.Stderr, "widedeep:", err)
		os.Exit(1)
	}
}

const learningRate = 0.02

// beginning says whether this worker joins a running job. The sampler makes it a member.
func beginning(kv kvstore.Elastic) (run worker.Run) {
	if kv.Joining() {
		run.Joined, run.Node = true, kv.NodeID()
	}
	return run
}

// A job is what one worker trains with.
type job struct {
	kv       kvstore.Store
	clicks   *data.Clicks
	model    *model
	examples *kvstore.ElasticSampler
	// trainRows are the rows to train on; those behind them are for testing.
	trainRows int
	board     *worker.ScalarWriter
}

// train returns the area under the ROC curve of the test rows after the last epoch.
func train(ctx context.Context, path, out string, batch, epochs int, cfg data.CriteoConfig) (area float64, err error) {
	if err := check(path, batch, epochs, cfg); err != nil {
		return 0, kvstore.Final(err)
	}
	buckets := cfg.Buckets
	if buckets == 0 {
		// No two of a few million values are likely to share one.
		cfg.Buckets = math.MaxInt64
	}
	clicks, err := data.OpenClicks(ctx, path, cfg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, kvstore.Final(err)
	case err != nil:
		return 0, err
	}
	defer clicks.Close()
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return 0, err
	}
	defer func() { err = kvstore.Leave(kv, err) }()

	// The last tenth is for testing.
	trainRows := clicks.Len() * 9 / 10
	if fit := min(trainRows/kv.NumWorkers(), clicks.Len()-trainRows); batch > fit {
		return 0, fmt.Errorf("--batch is %d, want at most %d: %s has %d rows, nine tenths for the %d workers and one for testing", batch, fit, path, clicks.Len(), kv.NumWorkers())
	}
	m, err := newModel(batch)
	if err != nil {
		return 0, err
	}
	defer m.program.Close()
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "adagrad", LearningRate: learningRate, Reduction: optim.Mean}); err != nil {
		return 0, err
	}
	if err := m.init(ctx, kv, buckets); err != nil {
		return 0, err
	}

	run := beginning(kv)
	j := &job{kv: kv, clicks: clicks, model: m, trainRows: trainRows, board: worker.TensorBoard(filepath.Join(out, "tensorboard"))}
	j.examples, err = kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{
		Examples: trainRows, Batch: batch, Epochs: epochs, Seed: 1,
		// Rows that are read and decoded together are used together.
		Order: clicks.Order(trainRows),
	})
	if err != nil {
		return 0, err
	}
	run.Rank, run.Workers, run.Done = kv.Rank(), kv.NumWorkers(), j.examples.Steps()
	j.board.Begin(run)
	defer j.board.End()
	defer leaveOnTerm(kv)()
	if err := m.pull(ctx, kv); err != nil {
		return 0, err
	}
	for epoch := range j.examples.Epochs() {
		if area, err = j.epoch(ctx, epoch); err != nil {
			return 0, err
		}
	}
	if err := j.examples.Err(); err != nil {
		return 0, err
	}
	if kv.Rank() == 0 {
		if err := tell(ctx, kv); err != nil {
			return 0, err
		}
	}
	return area, nil
}

// check names a flag that cannot be.
func check(path string, batch, epochs int, cfg data.CriteoConfig) error {
	switch {
	case path == "":
		return errors.New("--data is empty, want the path or URL of Criteo's rows")
	case batch < 1:
		return fmt.Errorf("--batch is %d, want at least 1", batch)
	case epochs < 1:
		return fmt.Errorf("--epochs is %d, want at least 1", epochs)
	case cfg.CacheBytes < 1<<20:
		return fmt.Errorf("--cache is %d, want at least 1", cfg.CacheBytes>>20)
	case cfg.Buckets < 0:
		return fmt.Errorf("--buckets is %d, want at least 1, or 0 for a row for each value", cfg.Buckets)
	}
	return nil
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
	if j.kv.Rank() == 0 { // launch tune reads this line
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
