package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/cluster/joinoption"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/store/transport"
)

// types are the names that Create accepts.
var types = []string{"local", "device", "dist", "dist_sync", "dist_device_sync", "dist_async"}

// Create joins the job described by the environment and returns its store, or makes one within this
// process.
//
//	local              within this process, for one worker
//	device             the same, for several local devices: with SetCompression each one's gradient is compressed by itself
//	dist, dist_sync    the job's, synchronous: a round closes when every worker has contributed
//	dist_device_sync   the same; kept for programs that use the name
//	dist_async         the job's, asynchronous: each push is applied at once
//
// A dist store in an environment without a job runs as a job of one worker within this process, and
// logs so. Close ends the store and the membership.
//
// An error that no restart can mend, as of an option or a variable, has ErrFinal in its chain.
func Create(ctx context.Context, name string, opts ...Option) (Store, error) {
	set := newSettings(opts)
	// The program goes on after an error that an earlier call has told of.
	exitreport.Withdraw(set.getenv)
	s, err := create(ctx, name, set)
	if err != nil {
		exitreport.Tell(set.getenv, err)
		return nil, err
	}
	return s, nil
}

// Package joining makes the option with which Create joins the job of a cluster.Config in place of
// the environment's.
var _ = joinoption.Provide(func(cfg any) any {
	return Option(func(s *settings) { s.job = cfg })
})

// create is Create without telling launch of an error.
func create(ctx context.Context, name string, set *settings) (*store, error) {
	if err := set.check(name); err != nil {
		return nil, exitreport.Final(exitreport.Usage, err)
	}
	node, host, err := set.join(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("kvstore: create %q: %w", name, refusedJoin(err))
	}
	s := newStore(set, node, host)
	if err := s.control.sendOptimizer(ctx, "create "+name, ""); err != nil {
		s.abandon(err)
		return nil, err
	}
	if s.Rank() == 0 && name != "local" && name != "device" {
		for _, line := range cluster.ForeignVariables(set.getenv) {
			set.logger.Warn("kvstore: " + line)
		}
	}
	m := node.Membership()
	set.logger.Debug("kvstore: store created", "type", set.kind, "rank", s.Rank(), "generation", m.Generation, "workers", m.Workers, "servers", m.Servers)
	if s.Joining() {
		set.logger.Info("this worker joins a running job: it gets a rank and takes part after it calls Ready (kvstore.Elastic), as worker.Fit and Python's ElasticSampler do")
	}
	return s, nil
}

// refusedJoin gives a refusal by the scheduler the error of this package that its code stands for.
// The text stays as it is.
func refusedJoin(err error) error {
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) || meaning(refusal.Code) == nil {
		return err
	}
	return &joinError{err, meaning(refusal.Code)}
}

// A joinError is an error of joining a job that is one of this package's, too.
type joinError struct{ err, is error }

func (e *joinError) Error() string   { return e.err.Error() }
func (e *joinError) Unwrap() []error { return []error{e.err, e.is} }

// check sets the kind of store that a type stands for, and refuses a type and options that cannot
// be.
func (set *settings) check(name string) error {
	if _, err := f32.FromEnv(); err != nil {
		return fmt.Errorf("kvstore: create %q: %w", name, err)
	}
	kind := name
	switch name {
	case "local", "device", "dist_sync", "dist_device_sync", "dist_async":
	case "dist":
		kind = "dist_sync"
	default:
		return fmt.Errorf("kvstore: create %q: unknown type, want one of %s", name, strings.Join(types, ", "))
	}
	if set.err != nil {
		return fmt.Errorf("kvstore: create %q: %w", name, set.err)
	}
	if set.bounded && kind != "dist_async" {
		return fmt.Errorf("kvstore: create %q: %w: only dist_async takes a bound on staleness", name, ErrUnsupported)
	}
	switch {
	case set.anyOrder && kind == "dist_async":
		return fmt.Errorf("kvstore: create %q: %w: dist_async applies each push by itself and has no sums; use WithSumsInAnyOrder with dist_sync", name, ErrUnsupported)
	case set.localSet && set.local < 1:
		return fmt.Errorf("kvstore: create %q: local steps: got %d, want at least 1", name, set.local)
	case set.localSet && kind == "dist_async":
		return fmt.Errorf("kvstore: create %q: %w: local steps end with a round, and dist_async has no rounds; use dist_sync", name, ErrUnsupported)
	}
	if set.guard != nil {
		if err := set.guard.Validate(); err != nil {
			return fmt.Errorf("kvstore: create %q: %w", name, err)
		}
	}
	set.setKind(kind)
	return nil
}

// join returns the store's membership in a job: the one given by an option, the environment's, or
// that of a job within this process. host is nil where the worker takes no part in sums within its
// host.
func (set *settings) join(ctx context.Context, name string) (_ member, host *hostListener, _ error) {
	if name == "local" || name == "device" {
		if set.job != nil || set.node != nil {
			return nil, nil, exitreport.Final(exitreport.Usage, fmt.Errorf("%w: this store lives in the process and joins no job; use dist_sync or dist_async", ErrUnsupported))
		}
		return newInProcess(), nil, nil
	}
	if set.node != nil {
		return set.node, nil, nil
	}
	var cfg cluster.Config
	var err error
	if job, ok := set.job.(*cluster.Config); ok {
		cfg = *job
		cfg.Role = cluster.Worker
	} else {
		cfg, err = cluster.FromEnv(set.getenv)
		if errors.Is(err, cluster.ErrNoJob) {
			set.logger.Info("no job in the environment: running as a job of one worker within this process", "store", name)
			return newInProcess(), nil, nil
		}
		if err != nil {
			return nil, nil, exitreport.Final(exitreport.Usage, err)
		}
		if cfg.Role != cluster.Worker {
			return nil, nil, exitreport.Final(exitreport.Usage, fmt.Errorf("%w: the environment gives this process the role %q, want worker (DMLC_ROLE)", ErrUnsupported, cfg.Role))
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = set.logger
	}
	cfg.PID = set.pid
	if host, err = set.listenForHost(name, &cfg); err != nil {
		return nil, nil, err
	}
	node, err := cluster.Join(ctx, cfg)
	if err != nil {
		host.close()
		return nil, nil, err
	}
	if host != nil {
		host.node = node
	}
	return node, host, nil
}
