package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/version"
)

// joinArguments are those of join.
type joinArguments struct {
	Protocol  int    `json:"protocol"`
	Release   string `json:"release"`
	Python    string `json:"python"`
	Store     string `json:"store"`
	TimeoutMS int64  `json:"timeout_ms"`
	HostSums  string `json:"host_sums"`
}

// joinResult is the result of join.
type joinResult struct {
	stateResult
	Type string `json:"type"`
	Node uint64 `json:"node"`
	// Alone says that the job is this worker alone, within the bridge.
	Alone bool `json:"alone"`
	// Elastic says that workers may join and leave while the job runs.
	Elastic bool   `json:"elastic"`
	Job     string `json:"job"`
	// Words is region 0.
	Words regionResult `json:"words"`
}

// stateResult is the result of state.
type stateResult struct {
	Rank       int    `json:"rank"`
	Workers    int    `json:"workers"`
	Generation uint64 `json:"generation"`
	Joining    bool   `json:"joining"`
}

func stateOf(store kvstore.Store) stateResult {
	return stateResult{Rank: store.Rank(), Workers: store.NumWorkers(), Generation: store.Generation(), Joining: store.Joining()}
}

// check refuses what cannot be. Another release is no error: the protocol's number says what fits.
func (a *joinArguments) check() error {
	if a.Protocol != protocol {
		return fmt.Errorf("bridge: %w: Python's package (release %s) speaks protocol %d, the bridge (launch %s) protocol %d; install both from one release: pip install --force-reinstall paragon-train, and unset PARAGON_LAUNCH",
			errProtocol, shorten(a.Release, 64), a.Protocol, version.Number, protocol)
	}
	if a.TimeoutMS < -1 || a.TimeoutMS > int64(1000*time.Hour/time.Millisecond) {
		return usage("bridge: join: timeout_ms: got %d, want -1 (none), 0 (the default) or at most 1000 hours", a.TimeoutMS)
	}
	return nil
}

// options are the options of the store.
func (a *joinArguments) options(s *session) []kvstore.Option {
	options := []kvstore.Option{kvstore.WithTimeout(time.Duration(a.TimeoutMS) * time.Millisecond), kvstore.WithLogger(s.storeLog()), kvstore.WithEnv(s.getenv), kvstore.WithNotesEvery(s.waitingEvery), kvstore.WithPID(s.python)}
	if a.HostSums != "" {
		options = append(options, kvstore.WithHostSums(kvstore.HostSums(a.HostSums)))
	}
	return options
}

// join is the operation join.
func join(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a joinArguments
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	if release := version.Number; a.Release != "" && a.Release != release {
		s.log.Warn("Python's package and the bridge are of different releases", "package", a.Release, "bridge", release)
	}
	s.log.Debug("Python joins", "python", a.Python, "package", a.Release, "store", a.Store)
	if err := s.member.begin(); err != nil {
		return nil, err
	}
	store, err := s.create(ctx, a.Store, a.options(s)...)
	s.member.joined(store, err)
	if err != nil {
		return nil, err
	}
	s.reports.trace.Store(traceOf(store))
	words, err := s.memory.words()
	if err != nil {
		return nil, err
	}
	list := wordsOf(words)
	s.exchanges.words.Store(&list)
	job, none := cluster.FromEnv(s.getenv)
	return withFile{joinResult{
		stateResult: stateOf(store), Type: store.Type(), Node: uint64(store.NodeID()), Job: store.JobRun().ID,
		Alone:   errors.Is(none, cluster.ErrNoJob) || store.Type() == "local" || store.Type() == "device",
		Elastic: none == nil && job.Elastic.Enabled,
		Words:   words.describe(0),
	}, words.file, words}, nil
}

// state is the operation state.
func state(_ context.Context, s *session, _ json.RawMessage) (any, error) {
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	return stateOf(store), nil
}

// barrier is the operation barrier.
func barrier(ctx context.Context, s *session, _ json.RawMessage) (any, error) {
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	return nil, store.Barrier(ctx)
}

// closeStore is the operation close.
func closeStore(_ context.Context, s *session, _ json.RawMessage) (any, error) {
	store := s.member.leave()
	if store == nil {
		return nil, nil
	}
	return nil, within(closeTime, store.Close)
}

// abortStore is the operation abort.
func abortStore(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Class string `json:"class"`
		Text  string `json:"text"`
		Last  string `json:"last"`
		Final bool   `json:"final"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store := s.member.leave()
	if store == nil {
		return nil, nil
	}
	cause := errors.New(shorten(a.Class+": "+a.Text, maxErrorText))
	if a.Last != "" {
		cause = fmt.Errorf("%w (%s)", cause, shorten(a.Last, 512))
	}
	if a.Final {
		cause = kvstore.Final(cause)
	}
	return nil, within(closeTime, func() error { return store.Abort(cause) })
}
