package telemetry

import (
	"math"
	"testing"
	"time"
)

var begin = time.Unix(1000, 0)

// after is so many seconds after begin.
func after(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

func rec(samples ...Sample) *Record { return &Record{Samples: samples} }

// points are those of one metric of one node since a time.
func points(h *History, at time.Time, since float64, node uint64, m Metric, most int) (Span, []float64) {
	from := time.Time{}
	if since > 0 {
		from = after(since)
	}
	s := h.Span(at, from, []Metric{m}, []uint64{node}, most)
	if len(s.Nodes) == 0 || len(s.Columns) == 0 {
		return s, nil
	}
	return s, h.Values(s, node)[0]
}

func wantPoints(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		ok = math.Abs(got[i]-want[i]) <= 1e-6*math.Abs(want[i]) || math.IsNaN(got[i]) && math.IsNaN(want[i])
	}
	if !ok {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var nan = math.NaN()

// Between two records a counter is interpolated and a gauge held, so heartbeats that come a little
// early or late make neither a gap nor a jump.
func TestPointsAreEquallySpaced(t *testing.T) {
	h := NewHistory(begin, time.Second)
	for _, x := range []float64{0.5, 1.6, 2.4, 3.5, 4.4, 5.5, 6.5} {
		h.Add(after(x), 1, rec(Sample{Steps, 0, 10 * x}, Sample{Loss, 0, x}))
	}
	s, steps := points(h, after(6.5), 0, 1, Steps, 0)
	wantPoints(t, "steps", steps, nan, 10, 20, 30, 40, 50)
	_, loss := points(h, after(6.5), 0, 1, Loss, 0)
	wantPoints(t, "loss", loss, nan, 0.5, 1.6, 2.4, 3.5, 4.4)
	if s.Step != time.Second || !s.From.Equal(begin) || s.Points != 6 {
		t.Errorf("got %+v, want 6 points from the begin, a second apart: the newest is a heartbeat old", s)
	}
	_, two := points(h, after(6.5), 0, 1, Steps, 2)
	wantPoints(t, "the newest two", two, 40, 50)
	_, late := points(h, after(6.5), 3.5, 1, Steps, 0)
	wantPoints(t, "since 3.5 s", late, 40, 50)
}

// Records that are further apart than two heartbeats have a gap between them, and what was counted
// in it is not lost.
func TestSilenceIsAGap(t *testing.T) {
	h := NewHistory(begin, time.Second)
	for _, x := range []float64{0, 1, 2, 3, 8, 9, 10} {
		h.Add(after(x), 1, rec(Sample{Steps, 0, 10 * x}))
	}
	_, got := points(h, after(10), 0, 1, Steps, 0)
	wantPoints(t, "steps", got, 0, 10, 20, 30, nan, nan, nan, nan, 80, 90)
	if v := h.Newest(1, Column{Steps, 0}); v != 100 {
		t.Errorf("the newest is %v, want 100", v)
	}
}

// A record that was overtaken by a newer one changes nothing.
func TestAnOlderRecordIsLeftOut(t *testing.T) {
	h := NewHistory(begin, time.Second)
	h.Add(after(1), 1, rec(Sample{Steps, 0, 10}, Sample{Loss, 0, 1}))
	h.Add(after(2), 1, rec(Sample{Steps, 0, 9}, Sample{Loss, 0, 2}))
	if steps, loss := h.Newest(1, Column{Steps, 0}), h.Newest(1, Column{Loss, 0}); steps != 10 || loss != 1 {
		t.Errorf("got %v steps and loss %v, want 10 and 1", steps, loss)
	}
}

// Whatever the length of the job, the whole of it is kept at one step, ever coarser, and the last
// ten minutes by the second.
func TestTheWholeJobIsKept(t *testing.T) {
	h := NewHistory(begin, 10*time.Second)
	const end = 200_000 // seconds
	late := 150_000.0   // when node 2 comes
	for x := 0.0; x <= end; x += 10 {
		h.Add(after(x), 1, rec(Sample{Steps, 0, 3 * x}))
		if x >= late {
			h.Add(after(x), 2, rec(Sample{Steps, 0, x}))
		}
	}
	s, got := points(h, after(end), 0, 1, Steps, 0)
	if s.Step != 240*time.Second || len(got) != end/240+1 || !s.From.Equal(begin) {
		t.Fatalf("got %d points every %v from %v, want %d every 240 s from the begin", len(got), s.Step, s.From, end/240+1)
	}
	for i, v := range got {
		if want := 3 * 240 * float64(i); math.Abs(v-want) > 0.05 {
			t.Fatalf("point %d is %v, want %v", i, v, want)
		}
	}
	_, second := points(h, after(end), 0, 2, Steps, 0)
	for i, v := range second {
		if want := 240 * float64(i); want < late && !math.IsNaN(v) || want >= late && math.Abs(v-want) > 0.05 {
			t.Fatalf("point %d of the node that came later is %v", i, v)
		}
	}
	s, fine := points(h, after(end), end-500, 1, Steps, 0)
	if s.Step != time.Second || len(fine) != 491 {
		t.Fatalf("the last 500 s: got %d points every %v, want 491 every second", len(fine), s.Step)
	}
	for i, v := range fine {
		if want := 3 * (end - 500 + float64(i)); math.Abs(v-want) > 1e-3 {
			t.Fatalf("point %d of the last 500 s is %v, want %v", i, v, want)
		}
	}
}

// The past of a large job is shorter, and never takes more than the budget.
func TestAHistoryIsBounded(t *testing.T) {
	h := NewHistory(begin, time.Second)
	h.budget = 30_000
	const nodes = 200
	for second := range 400 {
		for node := range uint64(nodes) {
			h.Add(after(float64(10*second)), node+1, rec(Sample{Steps, 0, 1}, Sample{Loss, 0, 2}))
		}
	}
	fine, coarse := 0, 0
	for _, p := range h.nodes {
		for i := range p.fine.columns {
			fine += cap(p.fine.columns[i].points)
			coarse += cap(p.coarse.columns[i].points)
		}
	}
	// 75 points for each of 400 columns; no ring of the whole job has fewer than leastCoarse.
	if h.columns != 2*nodes || fine > h.budget*5/4 || coarse > 2*nodes*(leastCoarse+slack(leastCoarse)) {
		t.Errorf("%d columns have %d points of the last minutes and %d of the whole job, want 400 with about %d and at most %d", h.columns, fine, coarse, h.budget, 2*nodes*leastCoarse)
	}
	if s, got := points(h, after(3990), 3950, 7, Loss, 0); s.Step != time.Second || len(got) != 40 {
		t.Errorf("got %d points every %v, want 40 every second", len(got), s.Step)
	}
	if s, got := points(h, after(3990), 0, 7, Loss, 0); s.Step != 60*time.Second || len(got) != 67 || got[66] != 2 {
		t.Errorf("got %d points every %v, want 67 every minute", len(got), s.Step)
	}
}

// Processes that are gone are forgotten after ten minutes, or sooner where many go; what they have
// counted stays.
func TestProcessesThatAreGoneAreForgotten(t *testing.T) {
	h := NewHistory(begin, time.Second)
	for node := range uint64(1000) {
		at := after(float64(node) / 100)
		h.Add(at, node+1, rec(Sample{Steps, 0, 3}, Sample{Loss, 0, 5}))
		h.Gone(at, node+1)
		h.Add(at, node+1, rec(Sample{Steps, 0, 4}))
	}
	if len(h.nodes) != maxGone || h.columns != 2*maxGone {
		t.Errorf("%d nodes and %d columns are kept, want %d nodes", len(h.nodes), h.columns, maxGone)
	}
	if total := h.Total(Column{Steps, 0}); total != 3000 {
		t.Errorf("got %v steps in all, want 3000", total)
	}
	h.Add(after(1000), 5000, rec(Sample{Steps, 0, 1}))
	if len(h.nodes) != 1 || h.columns != 1 || h.Total(Column{Steps, 0}) != 3001 {
		t.Errorf("later: %d nodes, %d columns, %v steps; want 1, 1 and 3001", len(h.nodes), h.columns, h.Total(Column{Steps, 0}))
	}
}

// Blames of all servers add up, since their begin and since they are known here: what a server had
// charged before its first record, or before a record that had room for the worker, has no time.
func TestBlamesAddUp(t *testing.T) {
	h := NewHistory(begin, time.Second)
	h.Add(after(0), 1, rec(Sample{Steps, 0, 1}))
	for second := range 100 {
		for server := range uint64(2) {
			r := Record{Blames: []Blame{{1, uint64(10 + second), float64(second) / 2}}}
			h.Add(after(float64(second)+0.1), 10+server, &r)
		}
	}
	want := func(what string, of func(uint64) (uint64, float64), node, rounds uint64, seconds float64) {
		t.Helper()
		if r, s := of(node); r != rounds || s != seconds {
			t.Errorf("%s: %d rounds and %v s, want %d and %v", what, r, s, rounds, seconds)
		}
	}
	want("in all", h.Blamed, 1, 2*109, 99)
	want("since they are known", h.Charged, 1, 2*99, 99)
	h.Add(after(101), 2, rec(Sample{Steps, 0, 1}))
	h.Add(after(102), 10, &Record{Blames: []Blame{{1, 109, 49.5}, {2, 7, 3}}})
	want("charged for the first time", h.Charged, 2, 7, 3)

	h = NewHistory(begin, time.Second)
	for node := range uint64(MaxBlames + 1) {
		h.Add(after(0), node, rec(Sample{Steps, 0, 1}))
	}
	full := &Record{}
	for node := range uint64(MaxBlames) {
		full.Blames = append(full.Blames, Blame{node, 1000, 50})
	}
	h.Add(after(1), 100, full)
	want("of a server that was there before", h.Charged, 0, 0, 0)
	h.Add(after(2), 100, &Record{Blames: []Blame{{0, 1001, 51}, {MaxBlames, 400, 20}}})
	want("one more", h.Charged, 0, 1, 1)
	want("of a worker for which the record before had no room", h.Charged, MaxBlames, 0, 0)
	h.Add(after(3), 100, &Record{Blames: []Blame{{MaxBlames, 402, 21}, {999, 30, 3}}})
	want("the same a record later", h.Charged, MaxBlames, 2, 1)
	h.Add(after(4), 999, rec(Sample{Steps, 0, 1}))
	h.Add(after(4), 100, &Record{Blames: []Blame{{999, 40, 4}}})
	want("of a worker that was not known", h.Charged, 999, 0, 0)
	want("in all", h.Blamed, 999, 40, 4)
}

// What a server has charged workers with that are forgotten is forgotten, too.
func TestBlamesOfManyWorkersAreBounded(t *testing.T) {
	h := NewHistory(begin, time.Second)
	for worker := range uint64(1000) {
		at := after(float64(worker))
		h.Add(at, 100+worker, rec(Sample{Steps, 0, 1}))
		h.Add(at, 1, &Record{Blames: []Blame{{100 + worker, 3, 1}}})
		h.Gone(at, 100+worker)
	}
	if n := len(h.nodes[1].charged); n > maxGone {
		t.Errorf("after 1000 workers the server's newest blames are of %d, want at most %d", n, maxGone)
	}
}

// A time that is not yet, however far away, has no points.
func TestNoPointsOfTheFuture(t *testing.T) {
	h := NewHistory(begin, time.Second)
	for second := range 100 {
		h.Add(after(float64(second)), 1, rec(Sample{Steps, 0, float64(second)}))
	}
	for _, since := range []time.Time{after(100), after(1e6), time.UnixMilli(math.MaxInt64)} {
		if s := h.Span(after(99), since, nil, nil, 0); s.Points != 0 {
			t.Errorf("since %v: got %d points from %v, want none", since, s.Points, s.From)
		}
	}
}

func TestClock(t *testing.T) {
	const ms = int64(time.Millisecond)
	c := NewClock()
	if _, _, known := c.Offset(); known {
		t.Error("the offset is known before the first heartbeat")
	}
	want := func(what string, offset, bound int64) {
		t.Helper()
		if c.offset != offset || c.bound != bound+1 {
			t.Errorf("%s: got %d ± %d, want %d ± %d", what, c.offset, c.bound, offset, bound+1)
		}
	}
	c.Beat(1, 100*ms, 120*ms, 1110*ms)
	want("the first", 1000*ms, 10*ms)
	c.Beat(1, 200*ms, 204*ms, 1203*ms)
	want("a shorter trip", 1001*ms, 2*ms)
	c.Beat(1, 300*ms, 340*ms, 1325*ms)
	want("a longer trip", 1001*ms, 2*ms)
	c.Beat(1, 400*ms, 404*ms, 9402*ms)
	want("the clocks moved apart", 9000*ms, 2*ms)
	if bound := c.boundAt(404*ms + 100_000*ms); bound != 12*ms+1 {
		t.Errorf("after 100 s the bound is %d, want %d: 100 ppm more", bound, 12*ms+1)
	}
	c.Beat(1, 100_500*ms, 100_520*ms, 109_511*ms)
	want("an old one has a larger bound", 9001*ms, 10*ms)
	c.Beat(2, 100_600*ms, 100_700*ms, 109_660*ms)
	want("another scheduler", 9010*ms, 50*ms)
	c.Beat(2, 100_800*ms, 100_700*ms, 7)
	want("an answer before the question", 9010*ms, 50*ms)
}

// What a record has of an index is that index's.
func TestIndicesAreKeptApart(t *testing.T) {
	h := NewHistory(begin, time.Second)
	for second := range 4 {
		x := float64(second)
		h.Add(after(x), 1, rec(Sample{SentBytes, 0, x}, Sample{SentBytes, 1, 10 * x}, Sample{GPULoad, 0, .5}, Sample{GPULoad, 1, .25}, Sample{GPULoad, 255, 9}))
	}
	h.Add(after(3), 2, rec(Sample{SentBytes, 1, 7}))
	for _, tc := range []struct {
		c     Column
		want  float64
		total float64
	}{{Column{SentBytes, 0}, 3, 3}, {Column{SentBytes, 1}, 30, 37}, {Column{GPULoad, 0}, .5, .5}, {Column{GPULoad, 1}, .25, .25}} {
		if got, total := h.Newest(1, tc.c), h.Total(tc.c); got != tc.want || total != tc.total {
			t.Errorf("%v[%d]: got %g, in all %g, want %g, %g", tc.c.Metric, tc.c.Index, got, total, tc.want, tc.total)
		}
	}
	if got := h.Newest(3, Column{SentBytes, 0}); !math.IsNaN(got) {
		t.Errorf("of a process that is not known: got %g", got)
	}
	s := h.Span(after(3), time.Time{}, []Metric{SentBytes}, nil, 0)
	if len(s.Columns) != 2 || len(s.Nodes) != 2 {
		t.Fatalf("got columns %v of nodes %v, want two of each", s.Columns, s.Nodes)
	}
	for i, values := range h.Values(s, 1) {
		wantPoints(t, s.Columns[i].Metric.String(), values, []float64{0, 0, 0}[0], []float64{1, 10}[i], []float64{2, 20}[i])
	}
}

func TestAnAgeIsThatOfTheNewestRecord(t *testing.T) {
	h := NewHistory(begin, time.Second)
	h.Add(after(2), 1, rec(Sample{Steps, 0, 1}))
	for at, want := range map[float64]time.Duration{1: 0, 2: 0, 5: 3 * time.Second} {
		if age, known := h.Age(after(at), 1); age != want || !known {
			t.Errorf("at %g s: got %v, %t, want %v", at, age, known, want)
		}
	}
	if age, known := h.Age(after(5), 2); age != 0 || known {
		t.Errorf("of a process that is not known: got %v, %t", age, known)
	}
}

// A counter that grows fast keeps its differences, also where a gap was at the end of what is kept.
func TestACounterKeepsItsDifferences(t *testing.T) {
	h := NewHistory(begin, time.Second)
	const rate = 1e6
	for second := range 3000 {
		if second < 148 || second > 160 {
			h.Add(after(float64(second)), 1, rec(Sample{SentBytes, 0, 1e12 + rate*float64(second)}))
		}
	}
	for _, most := range []int{0, 600, 10} {
		s, got := points(h, after(2999), 2400, 1, SentBytes, most)
		want := map[int]int{0: 599, 600: 599, 10: 10}[most]
		if s.Step != time.Second || len(got) != want {
			t.Fatalf("at most %d: got %d points every %v, want %d every second", most, len(got), s.Step, want)
		}
		for i, v := range got {
			if want := 1e12 + rate*float64(2999-len(got)+i); math.Abs(v-want) > 64 {
				t.Fatalf("point %d of %d is %f, want %f", i, len(got), v, want)
			}
		}
	}
	if s, got := points(h, after(2999), 0, 1, SentBytes, 0); s.Step != CoarseStep || len(got) != 100 {
		t.Errorf("of all: got %d points every %v, want 100 every %v", len(got), s.Step, CoarseStep)
	}
}

// Rings get shorter step by step as columns come, and no shorter than their least.
func TestRingsGetShorterWithTheColumns(t *testing.T) {
	for columns, want := range map[int][2]int{1: {600, 512}, 2: {450, 256}, 3: {252, 256}, 4: {189, 128}, 5: {189, 128}, 7: {141, 128}, 20: {60, 128}} {
		h := NewHistory(begin, time.Second)
		h.budget = 1000
		for node := range uint64(columns) {
			h.Add(after(1), node, rec(Sample{Loss, 0, 1}))
		}
		if got := [2]int{h.finePoints, h.mostCoarse}; got != want {
			t.Errorf("%d columns within %d points: the rings have %v, want %v", columns, h.budget, got, want)
		}
	}
}
