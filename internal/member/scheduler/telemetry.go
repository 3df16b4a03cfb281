package scheduler

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// incarnation is another number after each start of the scheduler: when it began, in microseconds,
// which a program that knows floats alone can hold.
func (c *Core) incarnation() uint64 { return uint64(c.start.UnixMicro()) }

// beat answers a heartbeat.
func (c *Core) beat(n *node) *wire.Beat {
	return &wire.Beat{Generation: c.generation, Revision: c.revision, Incarnation: c.incarnation(), At: c.clock(), Window: c.tracing.window(n)}
}

// clock is the time of this scheduler's clock, which does not jump when the system's is set.
func (c *Core) clock() int64 { return telemetry.Unix(c.start, c.now) }

// measured takes the record of a node that was heard from. One that cannot be read changes nothing.
func (c *Core) measured(n *node, record []byte) {
	if len(record) == 0 {
		return
	}
	r, err := telemetry.Decode(record)
	if err != nil {
		if !n.misread {
			n.misread = true
			c.warn("%v sent metrics that cannot be decoded, and they are ignored: %v", n, err)
		}
		return
	}
	_, known := c.history.Age(c.now, n.Node)
	c.history.Add(c.now, n.Node, &r)
	c.tally(!known)
}

// account counts what became of a node, which has changed.
func (c *Core) account(n *node) {
	switch {
	case n.state == living && n.Counts() && c.phase == wire.PhaseRunning && !n.member:
		n.member = true
		c.causes[control.ChangeJoined]++
	case n.state != living && n.member:
		n.member = false
		cause := [...]string{left: control.ChangeLeft, lost: control.ChangeLost, removed: control.ChangeRemoved}[n.state]
		if n.why != "" { // it left because it failed
			cause = control.ChangeLost
		}
		c.causes[cause]++
	}
	if (n.state == left || n.state == lost) && n.gone.IsZero() {
		n.gone = c.now
		c.history.Gone(c.now, n.Node)
	}
	if n.state != living && n.Node == c.slowness.node {
		c.endSlow()
	}
}

// goneShown is how long telemetry shows a node that is gone.
const goneShown = time.Minute

// telemetry answers OpTelemetry.
func (c *Core) telemetry(r control.Request) control.Answer {
	metrics, err := metricsOf(r.Metrics)
	if err != nil {
		return &control.Telemetry{Error: err.Error()}
	}
	columns := c.history.Columns(metrics)
	t := c.telemetryOfJob(columns)
	left := room(t)
	timed := c.timedWorkers(r.Steps)
	c.measuredNodes(func(n *node, state string) {
		x := c.telemetryOf(n, state, columns)
		if timed[n.Node] {
			x.Steps = c.lastSteps(n.Node, r.Steps)
		}
		if left -= nodeBytes + len(n.Host)*6 + x.Values.Size() + stepBytes*len(x.Steps); left < 0 {
			t.LeftOut++
			return
		}
		t.Nodes = append(t.Nodes, x)
	})
	return t
}

// stepBytes bounds the JSON of a StepTimes.
const stepBytes = 200

// timedWorkers are those whose last steps an answer has: those that others wait for, then those of
// the lowest ranks.
func (c *Core) timedWorkers(steps int) map[uint64]bool {
	timed := map[uint64]bool{}
	if steps == 0 {
		return timed
	}
	for _, s := range c.slowest() {
		timed[s.Node] = true
	}
	for _, n := range c.counting(wire.RoleWorker) {
		if len(timed) < control.MaxTraced {
			timed[n.Node] = true
		}
	}
	return timed
}

// lastSteps are the last steps of a worker, at most so many.
func (c *Core) lastSteps(node uint64, most int) (list []control.StepTimes) {
	offset := c.history.Newest(node, telemetry.Column{Metric: telemetry.ClockOffset})
	if math.IsNaN(offset) {
		return nil
	}
	seconds := func(d time.Duration) control.Number { return control.Number(roundTo(d.Seconds(), 6)) }
	steps := c.history.LastSteps(node)
	for _, s := range steps[max(0, len(steps)-most):] {
		list = append(list, control.StepTimes{Step: s.Number, EndMicros: s.End + int64(offset*1e6), Total: seconds(s.Total), Compute: seconds(s.Compute), Wait: seconds(s.Wait), Data: seconds(s.Data), Save: seconds(s.Save)})
	}
	return list
}

// Telemetry is what OpTelemetry answers, for use within this process: with all nodes, however many
// there are.
func (c *Core) Telemetry() *control.Telemetry {
	columns := c.history.Columns(nil)
	t := c.telemetryOfJob(columns)
	t.Changes = maps.Clone(t.Changes) // others will read it
	c.measuredNodes(func(n *node, state string) { t.Nodes = append(t.Nodes, c.telemetryOf(n, state, columns)) })
	return t
}

// telemetryOfJob is the answer without its nodes.
func (c *Core) telemetryOfJob(columns []telemetry.Column) *control.Telemetry {
	t := &control.Telemetry{Job: c.set.Job, Phase: phaseNames[c.phase], Incarnation: c.incarnation(), NowMillis: c.clock() / 1e6, SinceMillis: c.start.UnixMilli(), Generation: c.generation,
		Columns: valuesOf(columns), Scores: c.history.Scores(), Nodes: []control.NodeTelemetry{}, Changes: c.causes, Slow: c.slowest(), Checkpoints: uint64(c.history.Total(telemetry.Column{Metric: telemetry.Checkpoints}))}
	for _, col := range columns {
		total := math.NaN()
		if isCounter(col) {
			total = shown(col, c.history.Total(col))
		}
		t.Totals = append(t.Totals, control.Number(total))
	}
	return t
}

// telemetryOf is what one node measures.
func (c *Core) telemetryOf(n *node, state string, columns []telemetry.Column) control.NodeTelemetry {
	x := control.NodeTelemetry{Node: n.Node, Role: roleName(n.Role), Rank: n.Rank, Host: n.Host, PID: n.PID, Process: n.process, State: state, AgeMillis: -1,
		Values: make([]control.Number, len(columns))}
	if age, known := c.history.Age(c.now, n.Node); known {
		x.AgeMillis = age.Milliseconds()
	}
	for i, col := range columns {
		x.Values[i] = control.Number(shown(col, c.history.Newest(n.Node, col)))
	}
	rounds, seconds := c.history.Blamed(n.Node)
	x.BlamedRounds, x.BlamedSeconds = rounds, control.Number(roundTo(seconds, 6))
	return x
}

// measuredNodes calls add for the nodes of an answer: servers, then workers, by rank; then those
// that are removed; then those that are gone.
func (c *Core) measuredNodes(add func(n *node, state string)) {
	for _, role := range []uint8{wire.RoleServer, wire.RoleWorker} {
		for _, n := range c.living(role) {
			add(n, memberStates[n.State])
		}
	}
	for _, n := range c.nodes {
		if n.state == removed {
			add(n, control.NodeRemoved)
		}
	}
	for _, n := range c.nodes {
		if (n.state == left || n.state == lost) && c.now.Sub(n.gone) < goneShown {
			add(n, control.NodeGone)
		}
	}
}

// nodeBytes bounds the JSON of a NodeTelemetry but its values and host, and of a NodeSeries but its
// values.
const nodeBytes = 320

// room is how many bytes of an answer are left for its nodes.
func room(a control.Answer) int {
	b, err := control.EncodeAnswer(a)
	if err != nil {
		return 0
	}
	return control.MaxAnswer - len(b) - 64 // nodes_left_out
}

// series answers OpSeries.
func (c *Core) series(r control.Request) control.Answer {
	metrics, err := metricsOf(r.Metrics)
	if err != nil {
		return &control.Series{Error: err.Error()}
	}
	var since time.Time
	if r.SinceMillis > 0 {
		since = time.UnixMilli(r.SinceMillis)
	}
	span := c.history.Span(c.now, since, metrics, r.NodeIDs, r.Points)
	s := &control.Series{Incarnation: c.incarnation(), FromMillis: span.From.UnixMilli(), StepMillis: span.Step.Milliseconds(), Columns: valuesOf(span.Columns), Scores: c.history.Scores(), Nodes: []control.NodeSeries{}}
	room := room(s)
	for i, node := range span.Nodes {
		x := control.NodeSeries{Node: node, Values: make([][]control.Number, len(span.Columns))}
		room -= nodeBytes
		for k, values := range c.history.Values(span, node) {
			x.Values[k] = make([]control.Number, len(values))
			for j, v := range values {
				x.Values[k][j] = control.Number(shown(span.Columns[k], v))
			}
			room -= control.Numbers(x.Values[k]).Size() + 1
		}
		if room < 0 {
			s.LeftOut = len(span.Nodes) - i
			break
		}
		s.Nodes = append(s.Nodes, x)
	}
	return s
}

// metricsOf finds the metrics of a request's names; nil: all.
func metricsOf(names []string) (list []telemetry.Metric, err error) {
	for _, name := range names {
		m, ok := telemetry.ByName(name)
		if !ok {
			return nil, fmt.Errorf("metric %q is unknown; ask for all metrics to see their names", name)
		}
		list = append(list, m)
	}
	return list, nil
}

func valuesOf(columns []telemetry.Column) []control.Value {
	list := []control.Value{}
	for _, c := range columns {
		list = append(list, control.Value{Metric: c.Metric.String(), Index: c.Index})
	}
	return list
}

func isCounter(c telemetry.Column) bool {
	i, _ := c.Metric.Info()
	return i.Kind == telemetry.Counter
}

// shown is a value without the digits that mean nothing: of a gauge seven are kept, of a counter
// and a point in time microseconds.
func shown(c telemetry.Column, v float64) float64 {
	if isCounter(c) || c.Metric == telemetry.LastStepTime || c.Metric == telemetry.CheckpointTime {
		return roundTo(v, 6)
	}
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	return roundTo(v, 6-int(math.Floor(math.Log10(math.Abs(v)))))
}

// roundTo rounds to so many digits behind the point.
func roundTo(v float64, digits int) float64 {
	if digits > 300 || digits < 0 || math.Abs(v) > 1e9 && digits > 6 {
		return v
	}
	scale := math.Pow10(digits)
	if x := math.Round(v * scale); math.Abs(x) < 1<<53 {
		return x / scale
	}
	return v
}
