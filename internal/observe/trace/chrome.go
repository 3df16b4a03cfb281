package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A Summary says what WriteChrome has written.
type Summary struct {
	// First and Last are the steps that all workers have; First > Last: they have none in common.
	First, Last uint64

	// Median is the median time of a step; 0: no step is shown.
	Median time.Duration

	// Span is from the begin of the first span to the end of the last.
	Span time.Duration

	Spans int

	// Pushes is how many are shown.
	Pushes int

	Arrows int // pushes whose round is shown, too

	// Bound is the largest error of a node's clock.
	Bound time.Duration

	Warnings []string // what is missing, a sentence each
	Workers  []Breakdown
}

// WriteChrome writes the timeline in the Trace Event Format of Chrome, which Perfetto,
// chrome://tracing and speedscope read. A node is a process, and has a thread for each lane. Arrows
// are flow events from a push to its round to the pull of the round's value. Times are microseconds
// since the begin of what is shown; otherData has that begin in Unix time, and each node's clock
// offset and its bound. The same Timeline gives the same bytes.
//
// The error is a *ClockError if a node's clock is too uncertain, and that of w otherwise.
func (t *Timeline) WriteChrome(w io.Writer) (Summary, error) {
	m, err := t.merge()
	if err != nil {
		return Summary{}, err
	}
	c := &chrome{m: m, w: bufio.NewWriterSize(w, 64<<10), names: make(map[string]string)}
	c.text(`{"displayTimeUnit":"ms","otherData":`)
	c.metadata(t.Job, cmp.Or(t.Generator, "paragon launch ctl trace"))
	c.text(`,"traceEvents":[`)
	c.processes()
	c.spans()
	c.flows()
	c.text("\n]}\n")

	// Flush has the first error of a write.
	if err := c.w.Flush(); err != nil {
		return Summary{}, fmt.Errorf("trace: write: %w", err)
	}
	return m.summary(), nil
}

func (m *merged) summary() Summary {
	s := Summary{First: m.first, Last: m.last, Median: m.median, Span: time.Duration(m.end - m.begin), Pushes: m.pushes, Arrows: len(m.arrows), Warnings: m.warnings, Workers: m.breakdown()}
	for i := range m.nodes {
		s.Spans += len(m.nodes[i].spans)
		s.Bound = max(s.Bound, m.nodes[i].Bound)
	}
	return s
}

// otherData says what a reader has to know of the whole.
type otherData struct {
	Generator string `json:"generator"`
	Job       string `json:"job"`

	// BeginNS is the time 0, by the scheduler's clock.
	BeginNS int64 `json:"begin_unix_ns"`

	// Begin is the same time as a date.
	Begin string `json:"begin"`

	Steps    string `json:"steps"`
	Asked    int    `json:"steps_asked,omitempty"`
	MedianUS number `json:"median_step_us,omitempty"`
	Arrows   int    `json:"arrows"`
	Pushes   int    `json:"pushes"`
	// All times of a node may be wrong by its clock_bound_us, all of them by the same.
	Nodes    []nodeData `json:"nodes"`
	Warnings []string   `json:"warnings,omitempty"`
}

type nodeData struct {
	// PID is the process's number in this file.
	PID int `json:"pid"`

	Name string `json:"name"`
	Node uint64 `json:"node"`

	// Process is the process's number on its host.
	Process uint32 `json:"process_id"`

	OffsetUS number `json:"clock_offset_us"`
	BoundUS  number `json:"clock_bound_us"`
	Spans    int    `json:"spans"`
	Dropped  uint64 `json:"dropped,omitempty"`
	Missing  string `json:"missing,omitempty"`
}

// A number is written as it is, with digits that are not lost.
type number = json.RawMessage

// A chrome writes the events of a merged timeline.
type chrome struct {
	m   *merged
	w   *bufio.Writer
	buf []byte

	// any says that an event was written, so that the next one needs a comma.
	any bool

	// names are as JSON, with quotes.
	names map[string]string
}

func (c *chrome) text(s string) { c.w.WriteString(s) } // the writer keeps the error

func (c *chrome) metadata(job, generator string) {
	m := c.m
	begin := time.Unix(0, m.begin).UTC()
	d := otherData{Generator: generator, Job: job, BeginNS: m.begin, Begin: begin.Format(time.RFC3339Nano), Asked: m.asked, Arrows: len(m.arrows), Pushes: m.pushes,
		Nodes: []nodeData{}, Warnings: m.warnings}
	switch {
	case m.median == 0:
		d.Steps = "none"
	case m.first > m.last:
		d.Steps = "all: the workers have no steps in common"
	default:
		d.Steps = fmt.Sprintf("%d to %d", m.first, m.last)
	}
	if m.median > 0 {
		d.MedianUS = micros(nil, int64(m.median))
	}
	for i, n := range m.nodes {
		d.Nodes = append(d.Nodes, nodeData{pid(i), n.String(), n.ID, n.PID, micros(nil, int64(n.Offset)), micros(nil, int64(n.Bound)), len(n.spans), n.Dropped, n.Missing})
	}
	b, err := json.Marshal(d)

	// The struct has numbers and text alone, of which JSON can always be made.
	if err != nil {
		panic("trace: " + err.Error())
	}
	c.w.Write(b)
}

// pid is the process of a node, from 1: viewers take 0 for no process.
func pid(node int) int { return node + 1 }

// tid is the thread of a lane. Some viewers want another number for each thread of the whole file.
func tid(node, lane int) int { return pid(node)*100_000 + lane }

// processes names processes and threads, and puts them in order.
func (c *chrome) processes() {
	for i := range c.m.nodes {
		n := &c.m.nodes[i]
		name, label := n.String(), "clock ± "+n.Bound.Round(time.Microsecond).String()
		if n.Missing != "" {
			name += " (incomplete)"
			label = n.Missing
		}
		c.about("process_name", i, 0, "name", c.quoted(name))
		c.about("process_labels", i, 0, "labels", c.quoted(label))
		c.about("process_sort_index", i, 0, "sort_index", strconv.Itoa(i))
		for k, l := range n.lanes {
			c.about("thread_name", i, tid(i, k), "name", c.quoted(l.name))
			c.about("thread_sort_index", i, tid(i, k), "sort_index", strconv.Itoa(k))
		}
	}
}

// about writes an event of metadata about a thread, or (0) a process.
func (c *chrome) about(what string, node, thread int, arg, value string) {
	c.begin(`"ph":"M","name":"` + what + `"`)
	c.field("pid", uint64(pid(node)))
	c.field("tid", uint64(thread))
	c.buf = append(c.buf, `,"args":{"`+arg+`":`+value+`}}`...)
	c.end()
}

// spans writes an event for each span, by thread and time.
func (c *chrome) spans() {
	for i := range c.m.nodes {
		n := &c.m.nodes[i]
		byLane := make([][]int, len(n.lanes))
		for k, s := range n.spans {
			byLane[s.lane] = append(byLane[s.lane], k)
		}
		for l, list := range byLane {
			for _, k := range list {
				c.span(i, tid(i, l), &n.spans[k])
			}
		}
	}
}

// round writes the number of the round that a span is of; the first value is of none.
func (c *chrome) round(s *mergedSpan) {
	n := s.Round
	if s.Kind == Pull || s.Kind == Answer {
		if n == 0 {
			return
		}
		n--
	}
	c.field("round", n)
}

func (c *chrome) span(node, thread int, s *mergedSpan) {
	c.begin(`"ph":"X","cat":"` + s.Kind.String() + `","name":` + c.quoted(s.title()))
	c.field("pid", uint64(pid(node)))
	c.field("tid", uint64(thread))
	c.time("ts", s.Begin-c.m.begin)
	c.time("dur", s.End-s.Begin)
	c.buf = append(c.buf, `,"args":{`...)
	at := len(c.buf)
	switch s.Kind {
	case Push, Pull:
		c.field("step", s.Step)
		c.round(s)
		c.field("shard", uint64(s.Shard))
		c.field("server", s.Peer)
		c.field("bytes", s.Bytes)
	case Round, Apply, Receive, Answer:
		c.round(s)
		c.field("shard", uint64(s.Shard))
		if w, ok := c.workerOf(s.Peer); ok {
			c.field("worker", uint64(w))
		}
		c.field("bytes", s.Bytes)
	default:
		c.field("step", s.Step)
	}
	if s.cut {
		// The span goes on beyond what is shown.
		c.buf = append(c.buf, `,"cut":true`...)
	}

	// The first comma is left out.
	c.buf = append(append(c.buf[:at], c.buf[at+1:]...), "}}"...)
	c.end()
}

// title is the name of a span's event.
func (s *mergedSpan) title() string {
	switch s.Kind {
	case Step:
		return "step " + strconv.FormatUint(s.Step, 10)
	case Wait:
		return "pull wait"
	case Apply:
		return "update " + s.key
	}
	if s.key == "" {
		return s.Kind.String()
	}
	return s.Kind.String() + " " + s.key
}

// workerOf is the rank of the worker with a node's ID.
func (c *chrome) workerOf(node uint64) (rank int, ok bool) {
	for i := range c.m.nodes {
		if n := &c.m.nodes[i]; n.ID == node && n.Role == Worker {
			return n.Rank, true
		}
	}
	rank, ok = c.m.workers[node]
	return rank, ok
}

// flows writes the arrows. A viewer connects a flow event with the span of its thread that begins
// at its time or before, and ends behind it.
func (c *chrome) flows() {
	for id, a := range c.m.arrows {
		push, round := c.m.at(a.push), c.m.at(a.round)
		// Viewers take the ends of an arrow in the order of their times, and look for each
		// in its span. Clocks that are a little wrong may show the round, or its end,
		// before the push: the arrow then ends where it still goes forward.
		c.flow("s", id, a.push, push.Begin)
		last := max(round.Begin, round.End-1)
		if last < push.Begin {
			c.flow("f", id, a.push, push.Begin)
			continue
		}
		middle := min(max(a.arrived, round.Begin, push.Begin), last)
		end := int64(0)
		if a.pulled {
			pull := c.m.at(a.pull)
			end = max(pull.Begin, pull.End-1)
			middle = max(min(middle, end), round.Begin, push.Begin)
		}
		if !a.pulled || end < middle {
			c.flow("f", id, a.round, middle)
			continue
		}
		c.flow("t", id, a.round, middle)
		c.flow("f", id, a.pull, end)
	}
}

func (c *chrome) flow(phase string, id int, at place, time int64) {
	c.begin(`"ph":"` + phase + `","cat":"flow","name":"contribution"`)
	c.field("id", uint64(id+1))
	if phase == "f" {
		// The arrow ends at the span around it, and not at the next one.
		c.buf = append(c.buf, `,"bp":"e"`...)
	}
	c.field("pid", uint64(pid(at.node)))
	c.field("tid", uint64(tid(at.node, c.m.at(at).lane)))
	c.time("ts", time-c.m.begin)
	c.buf = append(c.buf, '}')
	c.end()
}

// begin begins an event.
func (c *chrome) begin(fields string) {
	if c.any {
		c.buf = append(c.buf, ',')
	}
	c.any = true
	c.buf = append(c.buf, "\n{"...)
	c.buf = append(c.buf, fields...)
}

func (c *chrome) end() {
	c.w.Write(c.buf)
	c.buf = c.buf[:0]
}

func (c *chrome) field(name string, v uint64) {
	c.buf = append(append(append(c.buf, `,"`...), name...), `":`...)
	c.buf = strconv.AppendUint(c.buf, v, 10)
}

func (c *chrome) time(name string, ns int64) {
	c.buf = append(append(append(c.buf, `,"`...), name...), `":`...)
	c.buf = micros(c.buf, ns)
}

// micros appends nanoseconds as microseconds, exactly.
func micros(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	if part := ns % 1000; part != 0 {
		b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	}
	return b
}

func (c *chrome) quoted(s string) string {
	q, ok := c.names[s]
	if !ok {
		b, err := json.Marshal(s)

		// JSON can be made of any text.
		if err != nil {
			panic("trace: " + err.Error())
		}
		q = string(b)
		c.names[s] = q
	}
	return q
}
