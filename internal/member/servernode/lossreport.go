package servernode

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
)

// A countReceiver tells the scheduler what a lost worker counted. *cluster.Node is one.
type countReceiver interface {
	ReportLostExamples(ctx context.Context, placement uint64, lost cluster.NodeID, examples uint64) error
}

// A lossReporter reports to the scheduler how many examples of each lost worker this server's
// shards have, once for each worker under each placement.
type lossReporter struct {
	scheduler countReceiver
	// examplesOf returns how many examples of a node the shards have.
	examplesOf func(node uint64) uint64
	logger     *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	// sends has the goroutines that report.
	sends sync.WaitGroup

	// reported are the lost workers that were reported or are being reported under placement.
	reported  map[uint64]bool
	placement uint64
}

func newLossReporter(ctx context.Context, scheduler countReceiver, examplesOf func(node uint64) uint64, logger *slog.Logger) *lossReporter {
	t := &lossReporter{scheduler: scheduler, examplesOf: examplesOf, logger: logger, reported: map[uint64]bool{}}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// report starts reports for the lost workers in a membership's LostToCount. The shards must have
// that membership already: only then are their counts of these workers final.
func (t *lossReporter) report(placement uint64, lost []uint64) {
	// Promoted shards lack contributions to open rounds, so the counts may differ.
	if placement != t.placement {
		t.placement = placement
		clear(t.reported)
	}
	asked := make(map[uint64]bool, len(lost))
	for _, node := range lost {
		asked[node] = true
		if !t.reported[node] {
			examples := t.examplesOf(node)
			t.sends.Go(func() { t.send(placement, node, examples) })
		}
	}
	// The scheduler is done with the others.
	t.reported = asked
}

// send sends one report, and repeats it until the scheduler has it or the job ends.
func (t *lossReporter) send(placement, node, examples uint64) {
	for {
		err := t.scheduler.ReportLostExamples(t.ctx, placement, cluster.NodeID(node), examples)
		if err == nil {
			t.log(node, examples)
			return
		}
		pause := time.NewTimer(reportPause)
		select {
		case <-t.ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
			t.logger.Warn("server: report the examples of a lost worker; trying again", "node", node, "err", err)
		}
	}
}

// log says what was reported. A server whose shards have counted nothing reports the largest number,
// which is in the way of no other server's.
func (t *lossReporter) log(node, examples uint64) {
	if examples == math.MaxUint64 {
		t.logger.Info("server: no key here counts examples of a lost worker", "node", node)
		return
	}
	t.logger.Info("server: reported the examples of a lost worker", "node", node, "examples", examples)
}

// reportPause is the time between two attempts. The scheduler may be down for longer, and nothing
// urgent waits.
const reportPause = 500 * time.Millisecond

// close gives up the reports that the scheduler does not have yet.
func (t *lossReporter) close() {
	t.cancel()
	t.sends.Wait()
}
