package servernode

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
)

// told is a scheduler that hears what lost workers counted.
type told struct {
	mu       sync.Mutex
	examples map[cluster.NodeID]uint64
	deaf     int // so many are not heard
}

func (x *told) ReportLostExamples(_ context.Context, _ uint64, lost cluster.NodeID, examples uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.deaf > 0 {
		x.deaf--
		return errors.New("out of reach")
	}
	x.examples[lost] += 1000 + examples // twice would show
	return nil
}

var quiet = slog.New(slog.DiscardHandler)

// However often the scheduler asks, it hears a worker's count once, and hears it again under
// another placement, since promoted shards may have another one.
func TestALostWorkerIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &told{examples: map[cluster.NodeID]uint64{}, deaf: 2}
		count := uint64(32)
		losses := newLossReporter(t.Context(), x, func(node uint64) uint64 { return node + count }, quiet)
		defer losses.close()
		for range 3 {
			losses.report(1, []uint64{100})
		}
		losses.report(1, []uint64{100, 200})
		losses.sends.Wait()
		if want := map[cluster.NodeID]uint64{100: 1132, 200: 1232}; !maps.Equal(x.examples, want) {
			t.Errorf("got %v, want %v", x.examples, want)
		}
		count = 16
		losses.report(2, []uint64{100})
		losses.sends.Wait()
		if got := x.examples[100]; got != 1132+1116 {
			t.Errorf("under another placement: got %d, want one more report of 116", got)
		}
	})
}

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
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // so that a failing test ends
			defer cancel()
			losses := newLossReporter(ctx, deaf{answers}, func(uint64) uint64 { return 0 }, quiet)
			losses.report(1, []uint64{11})
			time.Sleep(time.Minute)
			begin := time.Now()
			if losses.close(); time.Since(begin) > reportPause {
				t.Errorf("answers %v: closing took %v, want none", answers, time.Since(begin))
			}
		})
	}
}
