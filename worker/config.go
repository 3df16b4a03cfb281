package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// Config configures a Trainer.
type Config struct {
	// Store is the job's store; the caller closes it after the Trainer.
	Store kvstore.Store
	// Programs are the compiled training programs, one for each local device, of one model: the
	// same parameters in the same order. Their loss is the mean over the examples of the
	// device, which a short batch has fewer of (nn.Program.SetExamples), or over their labels;
	// the Trainer sets their GradScale so that gradients are sums. Programs that are each on a
	// GPU of its own are joined (nn.Join): they sum gradients among themselves before the store
	// gets them.
	Programs []*nn.Program
	// Optimizer is the update rule. An empty Reduction means "mean": the sum of gradients over
	// all workers is divided by their number of labels that count or, of losses without labels,
	// of examples.
	Optimizer optim.Config
	// UpdateOnWorker applies the optimizer on every worker; the store then only sums. Only with
	// a synchronous store.
	UpdateOnWorker bool
	// Outer is the servers' update rule where the store has local steps
	// (kvstore.WithLocalSteps): of each round's mean difference, while Optimizer is what each
	// worker steps with. Without a Name it is nag with learning rate 0.7 and momentum 0.9
	// (Douillard et al. 2023); sgd with learning rate 1 averages the workers' values. Its
	// learning rate's steps are rounds.
	Outer optim.Config
	// Compression of pushed gradients and of the values that come back; the zero value is none.
	Compression kvstore.Compression
	// Logger; nil: slog.Default(), or JSON on the standard error where PARAGON_LOG_FORMAT is
	// json.
	Logger *slog.Logger
}

// Validate names the first field that cannot be.
func (c *Config) Validate() error {
	switch {
	case c.Store == nil:
		return errors.New("worker: Config.Store is nil, want a store of kvstore.Create")
	case len(c.Programs) == 0:
		return errors.New("worker: Config.Programs is empty, want one program for each device")
	case c.UpdateOnWorker && joins(c.Store):
		return errors.New("worker: Config.UpdateOnWorker is true and this worker joins a running job, want false: the servers hold gradients only, so a joining worker cannot get the values")
	case c.Store.Type() == asyncStore && joins(c.Store):
		return errors.New("worker: this worker joins a running job with store dist_async, want dist_sync: an asynchronous job has no step after which the examples could be shared anew")
	case c.UpdateOnWorker && c.Store.Type() == asyncStore:
		return errors.New("worker: Config.UpdateOnWorker is true with store dist_async, want false: an asynchronous store applies each push itself")
	case c.UpdateOnWorker && c.Store.LocalSteps() > 0:
		return errors.New("worker: Config.UpdateOnWorker is true with a store of local steps, want false: local steps are updates on the worker anyway")
	case c.Optimizer.ClipGlobalNorm > 0 && (c.UpdateOnWorker || c.Store.LocalSteps() > 0):
		return fmt.Errorf("worker: Config.Optimizer.ClipGlobalNorm is %v where each worker updates (UpdateOnWorker or local steps), want 0: the update of a key cannot wait for all others there; ClipNorm is the norm of each key", c.Optimizer.ClipGlobalNorm)
	case c.Outer.Name != "" && c.Store.LocalSteps() == 0:
		return fmt.Errorf("worker: Config.Outer is %s with a store without local steps, want none: make the store with kvstore.WithLocalSteps", c.Outer.Name)
	case c.Outer.Reduction == optim.Sum:
		return fmt.Errorf("worker: Config.Outer.Reduction is %q, want %q or empty: a round's differences are averaged", c.Outer.Reduction, optim.Mean)
	case c.UpdateOnWorker && c.Optimizer.Reduction != optim.Sum && c.Compression.String() != "none":
		return fmt.Errorf("worker: Config.Compression is %v with UpdateOnWorker, want none: mean gradients are not compressed; with Optimizer.Reduction %q they are compressed", c.Compression, optim.Sum)
	}
	for d, program := range c.Programs[1:] {
		if err := alike("parameter", d+1, program.Params(), c.Programs[0].Params()); err != nil {
			return err
		}
		if err := alike("frozen array", d+1, program.Frozen(), c.Programs[0].Frozen()); err != nil {
			return err
		}
		if err := alike("running statistic", d+1, program.State(), c.Programs[0].State()); err != nil {
			return err
		}
	}
	return nil
}

// alike is an error if the parameters or statistics of a device's program are not those of the
// first one, in the same order.
func alike(what string, device int, list, first []nn.Param) error {
	if len(list) != len(first) {
		return fmt.Errorf("worker: Config.Programs[%d] has %d %ss, Programs[0] has %d, want the same model", device, len(list), what, len(first))
	}
	for i, p := range list {
		if p.Name != first[i].Name || !slices.Equal(p.Shape, first[i].Shape) {
			return fmt.Errorf("worker: %s %d of Config.Programs[%d] is %s %v, of Programs[0] %s %v, want the same model", what, i, device, p.Name, p.Shape, first[i].Name, first[i].Shape)
		}
	}
	return nil
}

// clips reports whether the servers clip gradients by their norm over all keys.
func (c *Config) clips() bool {
	onServers := c.Optimizer
	if c.Store.LocalSteps() > 0 {
		onServers = c.Outer
	}
	return onServers.ClipGlobalNorm > 0 && !c.UpdateOnWorker
}

// complete fills in what may be left out.
func (c *Config) complete() {
	if c.Logger == nil {
		c.Logger = joblog.Process()
	}
	if c.Optimizer.Reduction == "" {
		c.Optimizer.Reduction = optim.Mean
	}
}

// warn says which settings do not go well together, where the store does not: with UpdateOnWorker
// it does not know the optimizer.
func (c *Config) warn() {
	if !c.UpdateOnWorker || c.Store.Rank() != 0 {
		return
	}
	if text := c.Compression.Warning(c.Optimizer); text != "" {
		c.Logger.Warn("worker: " + text)
	}
}

// asyncStore is the type of a store without rounds.
const asyncStore = "dist_async"
