package cluster

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A record always fits its messages.
const _ = uint(wire.MaxRecord - telemetry.MaxRecord)

// Progress sets what the next heartbeats report: the last finished step and its epoch (for a
// server, the rounds closed).
func (n *Node) Progress(step, epoch uint64) {
	n.report.mu.Lock()
	defer n.report.mu.Unlock()
	n.report.step, n.report.epoch = step, epoch
}

// ReportAdaptation sets what the next heartbeats report of how this worker adapts, as JSON of at
// most wire.MaxAdaptation bytes.
func (n *Node) ReportAdaptation(text string) {
	n.report.mu.Lock()
	defer n.report.mu.Unlock()
	n.report.adaptation = text
}

// ReportWaits takes a function that says which of the process's calls has waited longest, for whom,
// and for how long; no call: none has waited for long. It is called before each heartbeat, which
// takes that to the scheduler for those who ask why the job stands still.
func (n *Node) ReportWaits(longest func() (call, whom string, waited time.Duration)) {
	n.report.mu.Lock()
	defer n.report.mu.Unlock()
	n.report.waits = longest
}

// heartbeats renews the lease until the node ends.
func (n *Node) heartbeats(every, lease time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		record := n.record()
		m := n.report.heartbeat()
		m.Node, m.Generation, m.Record = uint64(n.id), uint64(n.Generation()), record
		ctx, cancel := context.WithTimeout(n.life.ctx, max(every, lease/3))
		asked := time.Now()
		m.Sent = n.clock.Now()
		var beat wire.Beat
		_, err := n.sched.Call(ctx, m, &beat, nil)
		answered := n.clock.Now()
		cancel()
		if err == nil {
			n.beat(&beat, m.Sent, answered)
		}
		n.recordAnswer(asked, err)
		select {
		case <-tick.C:
		case <-n.life.ctx.Done():
			return
		}
	}
}

// record is what the process measures of itself now, encoded.
func (n *Node) record() []byte {
	r := n.cfg.Recorder.Record()
	return r.Append(nil)
}

// beat takes note of an answered heartbeat.
func (n *Node) beat(b *wire.Beat, sent, answered int64) {
	n.clock.Beat(b.Incarnation, sent, answered, b.At)
	offset, bound, _ := n.clock.Offset()
	r := n.cfg.Recorder
	r.Set(telemetry.ClockOffset, offset.Seconds())
	r.Set(telemetry.ClockBound, bound.Seconds())
	r.Set(telemetry.HeartbeatTrip, time.Duration(answered-sent).Seconds())
	n.windows.put(b.Window)
}
