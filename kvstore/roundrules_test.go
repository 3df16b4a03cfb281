package kvstore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// Averaged keys are never compressed; others are as was set last, unless the store sends nothing or
// is closed.
func TestCompressionIsSetForPushesToCome(t *testing.T) {
	closed, cfg := false, &settings{logger: slog.New(slog.DiscardHandler)}
	r := newRoundRules(cfg, func() int { return 0 }, func() bool { return closed })
	plain, average := &key{}, &key{rule: wire.RuleAverage}
	if got := r.compressionOf(plain); got.Type != "none" {
		t.Errorf("at first: got %v, want none", got)
	}
	if err := r.SetCompression(t.Context(), Compression{Type: "2bit"}); err != nil {
		t.Fatal(err)
	}
	if a, b := r.compressionOf(plain), r.compressionOf(average); a.Type != "2bit" || a.Threshold != 0.5 || b.Type != "none" || r.MeasuresNorms() {
		t.Errorf("got %v and, of an averaged key, %v; want 2bit with its default threshold and none, and no norms", a, b)
	}
	cfg.lossless = true
	if err := r.SetCompression(t.Context(), Compression{Type: "fp16"}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("in a store that sends nothing: got error %v, want ErrUnsupported", err)
	}
	cfg.lossless, closed = false, true
	if err := r.SetCompression(t.Context(), Compression{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: got error %v, want ErrClosed", err)
	}
}

// Rank 0 warns of a bad combination once, whichever of the two was set first.
func TestAMisfitIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	for _, rank := range []int{0, 1} {
		log.Reset()
		r := newRoundRules(&settings{logger: slog.New(slog.NewTextHandler(&log, nil))}, func() int { return rank }, func() bool { return false })
		adam := optim.Config{Name: "adam", LearningRate: 0.1}
		r.setOptimizer(&adam)
		for range 2 {
			if err := r.SetCompression(t.Context(), Compression{Type: "1bit"}); err != nil {
				t.Fatal(err)
			}
		}
		r.setOptimizer(&adam)
		if got := strings.Count(log.String(), "likely to diverge"); got != 1-rank {
			t.Errorf("rank %d: got %d warnings, want %d:\n%s", rank, got, 1-rank, &log)
		}
	}
}

// The optimizer of a file waits for the first SetOptimizer after the load, unless one is set.
func TestALoadedOptimizerIsUsedOnce(t *testing.T) {
	r := newRoundRules(&settings{}, func() int { return 1 }, func() bool { return false })
	saved, sgd := &optim.Config{Name: "sgd", LearningRate: 1}, &optim.Config{Name: "sgd", LearningRate: 2}
	if now := r.loaded(saved); now != nil {
		t.Errorf("got the optimizer %v, want none set", now)
	}
	if got := r.setOptimizer(sgd); got != saved {
		t.Errorf("got the saved optimizer %v, want that of the file", got)
	}
	if got := r.setOptimizer(sgd); got != nil {
		t.Errorf("again: got the saved optimizer %v, want none", got)
	}
	if now := r.loaded(saved); now != sgd || r.setOptimizer(sgd) != nil {
		t.Errorf("a load where one is set: got %v, and the file's is kept", now)
	}
}
