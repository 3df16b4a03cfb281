package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/trace"
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

// A Trainer runs training steps of one worker. Its methods are called by one goroutine at a time.
type Trainer struct {
	cfg      Config
	programs []*nn.Program // by device, for the next run: Config.Programs, or those of another batch size
	units    []unit
	group    *nn.Group // nil: the programs are not joined
	keys     []string  // by parameter
	index    map[string]int
	exchange *exchange
	update   *localUpdate // on the worker: with UpdateOnWorker or local steps
	local    *localSteps  // nil without

	adapt    *adaptation     // nil: batch and learning rate are as configured
	averages *averages       // nil: none are kept
	elastic  kvstore.Elastic // nil: workers neither come nor go
	roll     *rollcall.Roll  // nil: they do not, or Fit has not begun
	fitted   bool            // Fit was called
	counting bool            // the examples of steps tell the servers which were used

	// pusher has the weight of the step. The servers take the norm of what measuring pushes,
	// which is the same otherwise. agreeing, of the agreement, has the examples of the step as
	// its weight.
	pusher, measuring, agreeing kvstore.Pusher
	// weighed and countedThen are the amount and the counting that the pushers were made for.
	weighed     amount
	countedThen bool

	// measurable says that the servers can take norms, and normed that they take that of the
	// step under way.
	measurable, normed bool
	// norm is that of the mean gradient of the newest such step. NaN: it was taken already, or
	// there is none.
	norm float64
	// fresh says that this worker came to a running job and has used no example yet: the
	// running statistics are not its own.
	fresh bool
	// onWeight is called once in a step, when the store has the weight of its gradients; nil:
	// nothing.
	onWeight func()
	// onGradient is called once in a run, when its first gradient is there; nil: nothing.
	onGradient func()

	mu      sync.Mutex      // guards ready and begun, which the devices' hooks share
	ready   []int           // units on which parameter i's gradient is final in this step
	begun   bool            // this run's first gradient is there
	counts  []int           // of this run's examples, by device
	weights []float64       // what its loss divides by, by device
	sums    accumulator     // of the runs of this step before this one
	micro   []kvstore.Micro // of the newest step, by parameter: of what its gradient is the sum

	staleMu sync.Mutex // guards stale, which pulls share
	stale   Staleness

	round  atomic.Uint64 // the step whose gradients are exchanged
	steps  uint64        // steps done
	trace  *trace.Recorder
	passes []passTrace // by unit
	caught uint64      // contributions that TakeCaught has told of
	times  Times
}

// Times says where the time of steps went, as seen by the goroutine that calls Step; work hidden
// behind the compute of other layers does not show.
type Times struct {
	Compute time.Duration // forward and backward
	Wait    time.Duration // waiting for new values: for the other workers, the servers and the network
	Data    time.Duration // waiting for the next batch; Fit fills it
	Save    time.Duration // writing checkpoints within an epoch; Fit fills it
}

// Add adds u to t.
func (t *Times) Add(u Times) {
	t.Compute += u.Compute
	t.Wait += u.Wait
	t.Data += u.Data
	t.Save += u.Save
}

// NewTrainer sets the optimizer and compression, gives every parameter its first value (rank 0's
// counts) and copies it to all devices. Every worker calls it, also one that joins a running job:
// it gets the job's values.
func NewTrainer(ctx context.Context, cfg Config) (_ *Trainer, err error) {
	defer func() {
		for _, refused := range []error{kvstore.ErrConflict, kvstore.ErrDuplicateInit, kvstore.ErrSize, kvstore.ErrUnsupported} { // other workers have other settings
			if errors.Is(err, refused) {
				err = exitreport.Final(exitreport.Usage, err)
			}
		}
		if errors.Is(err, kvstore.ErrFinal) {
			err = kvstore.Final(err)
		}
	}()
	if err := cfg.Validate(); err != nil {
		return nil, exitreport.Final(exitreport.Usage, err)
	}
	if cfg.Logger == nil {
		cfg.Logger = joblog.Process()
	}
	if cfg.Optimizer.Reduction == "" {
		cfg.Optimizer.Reduction = optim.Mean
	}
	if cfg.UpdateOnWorker && cfg.Store.Rank() == 0 { // the store does not know this optimizer
		if text := cfg.Compression.Warning(cfg.Optimizer); text != "" {
			cfg.Logger.Warn("worker: " + text)
		}
	}
	params := cfg.Programs[0].Params()
	t := &Trainer{cfg: cfg, programs: slices.Clone(cfg.Programs), keys: make([]string, len(params)), index: map[string]int{}, micro: make([]kvstore.Micro, len(params)), ready: make([]int, len(params)), weights: make([]float64, len(cfg.Programs)), elastic: elasticOf(cfg.Store)}
	if err := t.makeUnits(); err != nil {
		return nil, err
	}
	t.trace = traceOf(cfg.Store)
	for u := range t.units {
		t.passes = append(t.passes, passTrace{r: t.trace, device: uint32(t.units[u].first)})
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.closeGroup())
		}
	}()
	holders := t.holders()
	initialise := cfg.Store.Init
	switch {
	case cfg.Store.LocalSteps() > 0:
		if err := t.beginLocalSteps(ctx); err != nil {
			return nil, err
		}
	case cfg.UpdateOnWorker:
		// Without an optimizer the servers replace a key's value by the sum of
		// contributions, for a mean over the sum of weights.
		if cfg.Optimizer.Reduction == optim.Mean {
			initialise = cfg.Store.InitAverage
		}
		var err error
		if t.update, err = newLocalUpdate(cfg.Optimizer, holders); err != nil {
			return nil, err
		}
	default:
		if err := cfg.Store.SetOptimizer(ctx, cfg.Optimizer); err != nil {
			return nil, fmt.Errorf("worker: set optimizer %s: %w", cfg.Optimizer.Name, err)
		}
	}
	if cfg.Compression != (kvstore.Compression{}) {
		if err := cfg.Store.SetCompression(ctx, cfg.Compression); err != nil {
			return nil, fmt.Errorf("worker: set compression %v: %w", cfg.Compression, err)
		}
	}
	grads, outs := make([][][]float32, len(params)), make([][][]float32, len(params))
	for i, p := range params {
		t.keys[i], t.index[p.Name] = p.Name, i
		if err := initialise(ctx, p.Name, p.Value); err != nil {
			return nil, fmt.Errorf("worker: init %s: %w", p.Name, err)
		}
		if err := cfg.Store.SetShape(p.Name, p.Shape...); err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		for _, program := range holders {
			own := program.Params()[i]
			grads[i] = append(grads[i], own.Gradient)
			outs[i] = append(outs[i], own.Value)
		}
		if err := cfg.Store.Pull(ctx, p.Name, outs[i]...); err != nil {
			return nil, fmt.Errorf("worker: pull first value of %s: %w", p.Name, err)
		}
		switch {
		case t.local != nil:
			copy(t.local.anchors[i], p.Value)
			grads[i] = grads[i][:1] // the devices' one difference
		case cfg.UpdateOnWorker:
			outs[i] = grads[i] // the mean gradient comes back in place of the sum pushed
		}
	}
	if err := t.initState(ctx); err != nil {
		return nil, err
	}
	if err := t.initFrozen(ctx); err != nil {
		return nil, err
	}
	t.measurable, t.norm = t.canMeasureNorm(), math.NaN()
	t.exchange = newExchange(ctx, cfg.Store, t.keys, grads, outs, t.pulled)
	cfg.Logger.Info("trainer ready", "store", cfg.Store.Type(), "rank", cfg.Store.Rank(), "workers", cfg.Store.NumWorkers(), "devices", len(cfg.Programs), "parameters", len(params), "divides", t.Divides())
	return t, nil
}

// Divides says in words what the sum of gradients is divided by.
func (t *Trainer) Divides() string {
	if t.local != nil {
		return fmt.Sprintf("the change of each worker's values over %d local steps, weighted by its labels or examples and summed over workers, by the number of all of these; in a local step, the sum of the worker's own gradients by the number of its own", t.local.length)
	}
	if t.cfg.Optimizer.Reduction == optim.Mean {
		return "the sum of gradients over all workers by the number of all labels that count or, of losses without labels, of all examples"
	}
	return "nothing: the sum of gradients over all workers goes to the optimizer"
}

// async reports whether the store applies each worker's push by itself, so that workers have no
// step in common.
func (t *Trainer) async() bool { return t.cfg.Store.Type() == asyncStore }

// asyncStore is the type of a store without rounds.
const asyncStore = "dist_async"
