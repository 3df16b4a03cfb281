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

// meters has what the nodes measure, and counts why the membership changed. Nothing of it is in the
// journal: the nodes send it again. So a scheduler that was started again begins with empty series,
// which its incarnation tells to those who draw charts.
type meters struct {
	set     *Settings
	history *telemetry.History
	// causes counts the changes of the membership by cause, as control.Telemetry has them, and
	// members has the nodes that are counted as members.
	causes  map[string]uint64
	members map[uint64]bool
	// misread has the nodes of which the warning was logged that a record cannot be read.
	misread map[uint64]bool
}

func newMeters(set *Settings, now time.Time) meters {
	return meters{set: set, history: telemetry.NewHistory(now, set.Heartbeat), causes: make(map[string]uint64), members: make(map[uint64]bool), misread: make(map[uint64]bool)}
}

// measured takes the record of a node that was heard from, and reports whether there is one, and
// whether it is the node's first. One that cannot be read changes nothing.
func (m *meters) measured(out *output, n *node, record []byte) (isNew, ok bool) {
	if len(record) == 0 {
		return false, false
	}
	r, err := telemetry.Decode(record)
	if err != nil {
		if !m.misread[n.Node] {
			m.misread[n.Node] = true
			out.warn("%v sent metrics that cannot be decoded, and they are ignored: %v", n, err)
		}
		return false, false
	}
	_, known := m.history.Age(out.now, n.Node)
	m.history.Add(out.now, n.Node, &r)
	return !known, true
}

// begin takes those who count for members, without counting them as a change.
func (m *meters) begin(r *roster) {
	for _, n := range r.nodes {
		if n.takesPart() {
			m.members[n.Node] = true
		}
	}
}

// account counts what became of a node, which has changed. It is called once for each node and
// event, after all that the event did, so that a node that joined and was lost in one event counts
// as neither.
func (m *meters) account(out *output, n *node) {
	switch {
	case n.takesPart() && out.job.phase == wire.PhaseRunning && !m.members[n.Node]:
		m.members[n.Node] = true
		m.causes[control.ChangeJoined]++
	case n.life != living && m.members[n.Node]:
		delete(m.members, n.Node)
		cause := [...]string{left: control.ChangeLeft, lost: control.ChangeLost, removed: control.ChangeRemoved}[n.life]
		if n.why != "" {
			// It left because it failed.
			cause = control.ChangeLost
		}
		m.causes[cause]++
	}
	if (n.life == left || n.life == lost) && n.gone.IsZero() {
		n.gone = out.now
		m.history.Gone(out.now, n.Node)
		delete(m.misread, n.Node)
	}
}

// noCheckpointFolder reports whether a job has no place for checkpoints, as its workers say: some
// have none, and none has one. Of a program that does not report it nothing is known.
func (m *meters) noCheckpointFolder(workers []*node) bool {
	none := false
	for _, n := range workers {
		switch m.history.Newest(n.Node, telemetry.Column{Metric: telemetry.CheckpointFolder}) {
		case 1:
			return false
		case 0:
			none = true
		}
	}
	return none
}

// A jobView is what the answers of meters say of the job beside what was measured.
type jobView struct {
	now    time.Time
	job    *jobState
	roster *roster
	// slow are the workers that the others wait for.
	slow []control.Slow
}

// goneShown is how long telemetry shows a node that is gone.
const goneShown = time.Minute

// telemetry answers OpTelemetry.
func (m *meters) telemetry(r control.Request, at jobView) control.Answer {
	metrics, err := metricsOf(r.Metrics)
	if err != nil {
		return &control.Telemetry{Error: err.Error()}
	}
	columns := m.history.Columns(metrics)
	t := m.ofJob(columns, at)
	left := room(t)
	timed := timedWorkers(r.Steps, at)
	at.measured(func(n *node, state string) {
		x := m.ofNode(n, state, columns, at.now)
		if timed[n.Node] {
			x.Steps = m.lastSteps(n.Node, r.Steps)
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
func timedWorkers(steps int, at jobView) map[uint64]bool {
	timed := map[uint64]bool{}
	if steps == 0 {
		return timed
	}
	for _, s := range at.slow {
		timed[s.Node] = true
	}
	for _, n := range at.roster.workers() {
		if len(timed) < control.MaxTraced {
			timed[n.Node] = true
		}
	}
	return timed
}

// lastSteps are the last steps of a worker, at most so many.
func (m *meters) lastSteps(node uint64, most int) (list []control.StepTimes) {
	offset := m.history.Newest(node, telemetry.Column{Metric: telemetry.ClockOffset})
	if math.IsNaN(offset) {
		return nil
	}
	seconds := func(d time.Duration) control.Number { return control.Number(roundTo(d.Seconds(), 6)) }
	steps := m.history.LastSteps(node)
	for _, s := range steps[max(0, len(steps)-most):] {
		list = append(list, control.StepTimes{Step: s.Number, EndMicros: s.End + int64(offset*1e6), Total: seconds(s.Total), Compute: seconds(s.Compute), Wait: seconds(s.Wait), Data: seconds(s.Data), Save: seconds(s.Save)})
	}
	return list
}

// all is what OpTelemetry answers, for use within this process: with all nodes, however many there
// are.
func (m *meters) all(at jobView) *control.Telemetry {
	columns := m.history.Columns(nil)
	t := m.ofJob(columns, at)
	// Others will read it.
	t.Changes = maps.Clone(t.Changes)
	at.measured(func(n *node, state string) { t.Nodes = append(t.Nodes, m.ofNode(n, state, columns, at.now)) })
	return t
}

// ofJob is the answer without its nodes.
func (m *meters) ofJob(columns []telemetry.Column, at jobView) *control.Telemetry {
	job := at.job
	t := &control.Telemetry{Job: m.set.Job, Phase: phaseNames[job.phase], Incarnation: job.incarnation(), NowMillis: job.clock(at.now) / 1e6, SinceMillis: job.start.UnixMilli(), Generation: job.generation,
		Columns: valuesOf(columns), Scores: m.history.Scores(), Nodes: []control.NodeTelemetry{}, Changes: m.causes, Slow: at.slow, Checkpoints: uint64(m.history.Total(telemetry.Column{Metric: telemetry.Checkpoints}))}
	for _, col := range columns {
		total := math.NaN()
		if isCounter(col) {
			total = shown(col, m.history.Total(col))
		}
		t.Totals = append(t.Totals, control.Number(total))
	}
	return t
}

// ofNode is what one node measures.
func (m *meters) ofNode(n *node, state string, columns []telemetry.Column, now time.Time) control.NodeTelemetry {
	x := control.NodeTelemetry{Node: n.Node, Role: roleName(n.Role), Rank: n.Rank, Host: n.Host, PID: n.PID, Process: n.process, State: state, AgeMillis: -1,
		Values: make([]control.Number, len(columns))}
	if age, known := m.history.Age(now, n.Node); known {
		x.AgeMillis = age.Milliseconds()
	}
	for i, col := range columns {
		x.Values[i] = control.Number(shown(col, m.history.Newest(n.Node, col)))
	}
	rounds, seconds := m.history.Blamed(n.Node)
	x.BlamedRounds, x.BlamedSeconds = rounds, control.Number(roundTo(seconds, 6))
	return x
}

// measured calls add for the nodes of an answer: those that people see, then those that are gone.
func (at jobView) measured(add func(n *node, state string)) {
	at.roster.present(add)
	for _, n := range at.roster.nodes {
		if (n.life == left || n.life == lost) && at.now.Sub(n.gone) < goneShown {
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
	// The 64 bytes are for nodes_left_out.
	return control.MaxAnswer - len(b) - 64
}

// series answers OpSeries.
func (m *meters) series(r control.Request, at jobView) control.Answer {
	metrics, err := metricsOf(r.Metrics)
	if err != nil {
		return &control.Series{Error: err.Error()}
	}
	var since time.Time
	if r.SinceMillis > 0 {
		since = time.UnixMilli(r.SinceMillis)
	}
	span := m.history.Span(at.now, since, metrics, r.NodeIDs, r.Points)
	s := &control.Series{Incarnation: at.job.incarnation(), FromMillis: span.From.UnixMilli(), StepMillis: span.Step.Milliseconds(), Columns: valuesOf(span.Columns), Scores: m.history.Scores(), Nodes: []control.NodeSeries{}}
	room := room(s)
	for i, node := range span.Nodes {
		x := control.NodeSeries{Node: node, Values: make([][]control.Number, len(span.Columns))}
		room -= nodeBytes
		for k, values := range m.history.Values(span, node) {
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

// valuesOf names the columns as an answer does.
func valuesOf(columns []telemetry.Column) []control.Value {
	list := []control.Value{}
	for _, c := range columns {
		list = append(list, control.Value{Metric: c.Metric.String(), Index: c.Index})
	}
	return list
}

// isCounter reports whether values of a column only grow, so that their sum over all nodes has a
// meaning.
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
