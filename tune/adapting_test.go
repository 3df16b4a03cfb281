package tune_test

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/observe/procs"
	"github.com/paragon-train/paragon/internal/testing/pacedmodel"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/worker"
)

// adaptingTrial trains with FitConfig.Adapt until it is told to stop, and reports how many workers
// it has.
func adaptingTrial(ctx context.Context, r *tune.Reporter) error {
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	return pacedmodel.Train(ctx, pacedmodel.Config{
		Examples: 256, Epochs: 1 << 20, InitialBatch: 16, MaxBatch: 64, Seed: 1, Step: 2 * time.Millisecond, Example: 500 * time.Microsecond, Leave: term.Done(),
		Epoch: func(e worker.EpochInfo, _, workers int) error {
			return r.Report(e.Epoch+1, map[string]float64{"value": float64(workers)})
		},
	})
}

// A loss lets a host be lost when all of so many trials have had two replicas. When one of them has
// trained on with one it ends them; if the host can come back it does, and the trial ends when it
// has two again.
type loss struct {
	trials     int
	lose, back func()
	losing     sync.Once
	returning  sync.Once
	done       sync.WaitGroup
}

func (l *loss) Prune(v tune.View, trial int) tune.StopDecision {
	two, alone, again := 0, 0, false
	for x := range v.Trials() {
		i := slices.IndexFunc(x.Reports, func(r tune.Report) bool { return r.Value == 2 })
		if i < 0 {
			continue
		}
		two++
		one := 0
		for _, r := range x.Reports[i:] {
			if r.Value == 1 {
				one++
			} else {
				again = again || one > 0
			}
		}
		alone = max(alone, one)
	}
	switch {
	case two < l.trials:
		return tune.StopDecision{}
	case alone >= 3 && (l.back == nil || again):
		return tune.StopDecision{Trial: tune.Complete, Rule: "the trials trained on"}
	case alone >= 3:
		l.returning.Do(func() { l.done.Go(l.back) })
	}
	l.losing.Do(func() { l.done.Go(l.lose) })
	return tune.StopDecision{}
}

// A host is lost with all that runs there: its slots are nobody's any more. A trial that has a
// replica elsewhere goes on with it, in the same attempt, and gets the host's slots when it is
// added again; one that had all of its replicas there is tried again, which is not counted as a
// failure of the user's code.
func TestTrialsGoOnWithoutALostHost(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes some seconds; set PARAGON_TEST_SLOW=1")
	}
	for _, c := range []struct {
		name     string
		slots    int   // of each of two hosts
		attempts []int // of each trial
	}{
		{"a replica of a trial", 1, []int{1}},
		{"all replicas of a trial", 2, []int{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newElasticHosts(t, "adapting", 2, c.slots)
			cfg := h.config(len(c.attempts))
			l, same := &loss{trials: len(c.attempts)}, &loss{trials: len(c.attempts), lose: func() {}}
			l.lose = func() {
				killHost(t, h.names[1])
				h.s.Lose(t, h.s.Addresses[1])
			}
			if len(c.attempts) == 1 {
				l.back, same.back = func() {
					h.s.Return(t, h.s.Addresses[1])
					if err := h.jobs.Add(t.Context(), h.lines[1]); err != nil {
						t.Error(err)
					}
				}, func() {}
			}
			cfg.Pruners = []tune.Pruner{l}
			result := mustRun(t, cfg)
			l.done.Wait()
			for i, x := range result.Trials() {
				if x.State != tune.Completed || x.Attempts != c.attempts[i] || (x.Failure == tune.NodeLost) != (x.Attempts > 1) {
					t.Errorf("trial %d is %s after %d attempts: %s %s; want completed after %d", x.Number, x.State, x.Attempts, x.Failure, x.Error, c.attempts[i])
				}
			}
			h.wantLost(cfg, 1)
			h.replays(cfg, result, same)
		})
	}
}

// A host is lost before a trial has a replica there: the trial goes on with those that it has, and
// the host is not tried again.
func TestAHostThatIsGoneIsNotTriedAgain(t *testing.T) {
	h := newElasticHosts(t, "adapting", 2, 2)
	cfg := h.config(1)
	l := &lostAndOn{}
	cfg.Pruners, cfg.Observers = []tune.Pruner{l}, []tune.Observer{l}
	if _, err := h.jobs.Nodes(); err != nil { // they are found now
		t.Fatal(err)
	}
	h.s.Lose(t, h.s.Addresses[1])
	result := mustRun(t, cfg)
	if x := result.Trials()[0]; x.State != tune.Completed || x.Attempts != 1 {
		t.Errorf("the trial is %s after %d attempts: %s %s; want completed in its first", x.State, x.Attempts, x.Failure, x.Error)
	}
	h.wantLost(cfg, 1)
	// A decision may be made between the refusal and the report that the host failed.
	if n := strings.Count(h.log.String(), "could not run replicas"); n < 1 || n > 2 {
		t.Errorf("the host was tried %d times, want once or twice", n)
	}
}

// A lostAndOn completes a trial when there were decisions after the one that a host was lost.
type lostAndOn struct{ decisions atomic.Int32 }

func (l *lostAndOn) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventAllocate && (l.decisions.Load() > 0 || strings.Contains(e.Rule, "was lost")) {
		l.decisions.Add(1)
	}
}

func (l *lostAndOn) Prune(tune.View, int) tune.StopDecision {
	if l.decisions.Load() > 2 {
		return tune.StopDecision{Trial: tune.Complete, Rule: "enough"}
	}
	return tune.StopDecision{}
}

// killHost kills all processes of a host, none of which can say anything any more.
func killHost(t *testing.T, host string) {
	t.Helper()
	all, err := procs.Find("DMLC_NODE_HOST", host)
	if err != nil || len(all) == 0 {
		t.Errorf("host %s has %d processes, %v; want some", host, len(all), err)
	}
	for _, p := range all {
		if p.PID != os.Getpid() {
			if process, err := os.FindProcess(p.PID); err == nil {
				_ = process.Kill()
			}
		}
	}
}
