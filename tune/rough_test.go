package tune_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// oddError has a message that panics.
type oddError struct{ text *string }

func (e oddError) Error() string { return *e.text }

func TestATrialThatEndsInAnOddWayFailsAndTheSearchGoesOn(t *testing.T) {
	for _, tc := range []struct {
		name  string
		end   func() error
		state tune.State
		class tune.Failure
		want  string // in its Error; "=" before it: all of it
	}{
		{"goroutine ended", func() error { runtime.Goexit(); return nil }, tune.Failed, tune.UserCode, "ended its goroutine"},
		{"message panics", func() error { return oddError{} }, tune.Failed, tune.UserCode, "whose message panics"},
		{"class of nil", func() error { return tune.Fail(tune.OutOfMemory, nil) }, tune.Completed, "", "="},
		{"class of no error", func() error { return &tune.TrialError{Class: tune.OutOfMemory} }, tune.Failed, tune.OutOfMemory, "=out of memory"},
		{"class once", func() error { return tune.Fail(tune.NodeLost, errors.New("gone")) }, tune.Failed, tune.NodeLost, "=gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			res, err := tune.Run(ctx, func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
				if err := r.Report(1, map[string]float64{"v": 1}); err != nil {
					return err
				}
				if p.Int("i") == 0 {
					return tc.end()
				}
				return nil
			}, tune.Config{Space: tune.Space{tune.Grid("i", 0, 1)}, Metric: "v", Retries: tune.Retries{NodeLost: -1}, Grace: 100 * time.Millisecond, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			x := res.Trials()[0]
			whole := strings.HasPrefix(tc.want, "=")
			if want := strings.TrimPrefix(tc.want, "="); x.State != tc.state || x.Failure != tc.class || !strings.Contains(x.Error, want) || whole && x.Error != want {
				t.Errorf("trial 0 is %s (%s) %q, want %s (%s) %q", x.State, x.Failure, x.Error, tc.state, tc.class, tc.want)
			}
			if x := res.Trials()[1]; x.State != tune.Completed {
				t.Errorf("trial 1 is %s, want completed", x.State)
			}
		})
	}
}

func TestATrialOfManyGoroutinesKeepsEachCheckpointOnce(t *testing.T) {
	const steps = 20
	cfg := tune.Config{Space: line, Metric: "v", Dir: t.TempDir(), Logger: quiet}
	res, err := tune.Run(t.Context(), func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
		var all sync.WaitGroup
		errs := make(chan error, 8)
		for range cap(errs) {
			all.Go(func() {
				for step := range steps {
					_ = r.Report(step, map[string]float64{"v": 1}) // another may be further
					if err := r.Checkpoint(step, func(dir string) error { return os.WriteFile(filepath.Join(dir, "state"), nil, 0o666) }); err != nil {
						errs <- fmt.Errorf("step %d: %w", step, err)
					}
				}
			})
		}
		all.Wait()
		close(errs)
		return <-errs
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if x := res.Trials()[0]; x.State != tune.Completed || len(x.Checkpoints) != steps {
		t.Errorf("trial 0 is %s (%s) with %d checkpoints, want completed with %d", x.State, x.Error, len(x.Checkpoints), steps)
	}
}

// boom is an observer that panics at each event.
type boom struct{ seen *int }

func (b boom) Observe(tune.View, tune.Event) { *b.seen++; panic("boom") }

func TestAnObserverThatPanicsIsNoFailureOfATrial(t *testing.T) {
	seen := 0
	res, err := tune.Run(t.Context(), train(2), tune.Config{Space: line, Metric: "accuracy", Samples: 2, Observers: []tune.Observer{boom{&seen}}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range res.Trials() {
		if x.State != tune.Completed {
			t.Errorf("trial %d is %s: %s, want completed", x.Number, x.State, x.Error)
		}
	}
	if seen < 9 { // a study, two starts, four reports, two ends
		t.Errorf("the observer was told of %d events, want all of at least 9", seen)
	}
}
