package shardserver

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
)

// deaf is a scheduler that never answers, or always refuses.
type deaf struct{ answers bool }

func (d deaf) ReportLostExamples(ctx context.Context, _ uint64, _ cluster.NodeID, _ uint64) error {
	if d.answers {
		return context.DeadlineExceeded
	}
	<-ctx.Done()
	return ctx.Err()
}

// A server that ends does not wait for a scheduler that has not heard what a lost worker counted.
func TestAServerEndsThoughTheSchedulerHearsNothing(t *testing.T) {
	for _, answers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // so that a failing test ends
			defer cancel()
			settling := newLossReporter(ctx, r.s, deaf{answers})
			settling.report(1, []uint64{11})
			time.Sleep(time.Minute)
			begin := time.Now()
			if settling.close(); time.Since(begin) > reportPause {
				t.Errorf("answers %v: closing took %v, want none", answers, time.Since(begin))
			}
		})
	}
}

func TestAServerHasALogger(t *testing.T) {
	if s := New(Config{}); s.cfg.Logger == nil {
		t.Error("the server has no logger")
	}
	own := slog.New(slog.DiscardHandler)
	if s := New(Config{Logger: own}); s.cfg.Logger != own {
		t.Error("the server does not have its logger")
	}
}
