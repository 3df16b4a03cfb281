package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Config says which job Run schedules.
type Config struct {
	// Config's Scheduler is the address to listen on. Its Role and Rank are not used.
	cluster.Config

	// Kept, if set, is the journal, in place of Config.State. Run does not close it.
	Kept State
	// Ready, if set, is called with the address that Run listens on, as soon as it does.
	Ready func(addr string)
	// Report, if set, is called with each line for the launcher, as
	// internal/member/control.Report has it: which nodes register and disconnect while the job
	// is forming; that it is complete; and why it failed, unless it did because the context has
	// ended.
	Report func(line string)
	// Telemetry, if set, hands over channels, which have room for one; on each Run sends the
	// newest values of all nodes. Unlike the answer to OpTelemetry these have no limit of size.
	// While the journal cannot be written none are sent.
	Telemetry <-chan chan<- *control.Telemetry
}

const (
	// sayAfter is how often Run says whom a job that is forming waits for.
	sayAfter = 5 * time.Second
	// linger bounds how long Run stays once the job has ended, so that the nodes can fetch
	// their last answers.
	linger = 3 * time.Second
	// lingerStopped is the same if the context has ended: the launcher then ends the nodes,
	// too, and waits for all.
	lingerStopped = time.Second
)

// ErrHandOver, as the cause of the end of Run's context, ends the scheduler and not its job:
// another scheduler that has its records continues the job. The nodes are not told.
var ErrHandOver = errors.New("another scheduler continues the job")

// Run is the scheduler of one job. It returns nil when the job finished, an error with the reason
// (cluster.ErrFailed is in its chain) when it failed, and, having told the nodes, the error of ctx
// when that ended first.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.prepare(); err != nil {
		return err
	}
	core, st, err := cfg.core(ctx)
	if err != nil {
		return err
	}
	if st != nil && cfg.Kept == nil {
		defer st.Close()
	}
	ln, err := cfg.Network.Listen(cfg.Scheduler)
	if err != nil {
		return fmt.Errorf("scheduler: listen on %s: %w", cfg.Scheduler, err)
	}
	sh := newShell(cfg, core, st)
	srv := transport.NewServer(ln, sh.in, cfg.Transport())
	served := make(chan error, 1)
	go func() { served <- srv.Serve() }()
	if cfg.Ready != nil {
		cfg.Ready(ln.Addr().String())
	}
	kept := sh.loop(ctx)
	closeAll := func() error { return errors.Join(srv.Close(), <-served) }
	if errors.Is(kept, ErrHandOver) {
		err := sh.handOver(closeAll)
		return errors.Join(fmt.Errorf("scheduler: job %s: %w", cfg.Job, kept), err)
	}
	sh.linger(ctx, srv)
	err = closeAll()
	phase, reason := core.Phase()
	switch {
	case kept != nil:
		return fmt.Errorf("scheduler: job %s: %w", cfg.Job, kept)
	case sh.interrupted:
		return fmt.Errorf("scheduler: job %s: %w", cfg.Job, context.Cause(ctx))
	case phase == wire.PhaseFailed:
		return fmt.Errorf("scheduler: job %s: %w: %s", cfg.Job, cluster.ErrFailed, reason)
	}
	return err
}

// prepare checks the configuration and sets what is left out.
func (cfg *Config) prepare() error {
	cfg.Role, cfg.Rank = cluster.Scheduler, -1
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.Config = cfg.WithDefaults()
	if d := cfg.Lease; d.Milliseconds() > math.MaxUint32 || cfg.HeartbeatInterval < time.Millisecond {
		return fmt.Errorf("scheduler: heartbeat %v and lease %v: want 1 ms to 49 days", cfg.HeartbeatInterval, d)
	}
	return nil
}

// handOver ends the connections without an answer: the next answer is the next scheduler's.
func (s *shell) handOver(closeAll func() error) error {
	done := make(chan struct{})
	go func() {
		defer s.in.end()
		s.in.dropRest(done)
	}()
	err := closeAll()
	close(done)
	<-s.in.ended
	return err
}

// linger waits until the nodes have their last answers: they close their connections then.
func (s *shell) linger(ctx context.Context, srv *transport.Server) {
	quiet, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lingerStopped, cancel) })()
	go func() {
		defer s.in.end()
		s.in.refuseRest(quiet, s.core, &s.cfg)
	}()
	_ = srv.AwaitDisconnects(quiet)
	cancel()
	<-s.in.ended
}

// core makes the core of the job, from the journal if it has begun before.
func (cfg Config) core(ctx context.Context) (*Core, State, error) {
	hosts := make(Hosts)
	for p, host := range cfg.ExpectedHosts {
		hosts[Place{uint8(p.Role), int(p.Rank)}] = host
	}
	set := Settings{
		Job: cfg.Job, Workers: cfg.NumWorkers, Servers: cfg.NumServers, Heartbeat: cfg.HeartbeatInterval, Lease: cfg.Lease,
		StartTimeout: cfg.StartTimeout, Patience: cfg.SchedulerTimeout, Hosts: hosts, Elastic: cfg.Elastic,
	}
	st := cfg.Kept
	switch {
	case st != nil:
	case cfg.State == "":
		set.Unkept = true
		return NewCore(set, time.Now()), nil, nil
	default:
		var err error
		if st, err = OpenState(ctx, cfg.State); err != nil {
			return nil, nil, err
		}
	}
	core, err := begin(ctx, st, set)
	if err != nil {
		if cfg.Kept == nil {
			st.Close()
		}
		return nil, nil, err
	}
	if m := core.members.message(core.out.now); m.Generation > 0 {
		cfg.Logger.Info("job restored from the journal", "generation", m.Generation, "workers", m.Workers, "change", m.Change, joblog.JobRestored.With())
	}
	return core, st, nil
}
