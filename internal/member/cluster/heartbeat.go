package cluster

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A record always fits its messages.
const _ = uint(wire.MaxRecord - telemetry.MaxRecord)

// A report is what the heartbeats say of the process, as it was set last.
type report struct {
	// mu guards all below.
	mu         sync.Mutex
	step       uint64
	epoch      uint64
	adaptation string
	// waits says which call of the process has waited longest; nil: nothing is said of that.
	waits func() (call, whom string, waited time.Duration)
}

// heartbeat is a heartbeat with what the report says, without node, generation and record.
func (r *report) heartbeat() *wire.Heartbeat {
	r.mu.Lock()
	m := &wire.Heartbeat{Step: r.step, Epoch: r.epoch, Adaptation: r.adaptation}
	longest := r.waits
	r.mu.Unlock()
	if longest != nil {
		call, whom, waited := longest()
		m.Call, m.WaitsFor = shorten(call, wire.MaxWaitText), shorten(whom, wire.MaxWaitText)
		m.WaitsMillis = uint32(min(max(waited.Milliseconds(), 0), math.MaxUint32))
	}
	return m
}

// shorten cuts a text to so many bytes of valid UTF-8.
func shorten(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}

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
