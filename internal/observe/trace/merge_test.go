package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	ms = int64(time.Millisecond)

	// day is when the tests' windows begin, by the scheduler's clock.
	day = int64(1e18)
)

// A job of tests is on the scheduler's clock; at puts a node's spans on its own.
func at(n Node, spans ...Span) Node {
	if len(n.Names) == 0 {
		n.Names = []string{"", "conv.weight", "fc.bias"}
	}
	for i := range spans {
		spans[i].Begin += day - int64(n.Offset)
		spans[i].End += day - int64(n.Offset)
	}
	n.Spans = append(n.Spans, spans...)
	return n
}

// steps are the spans of a worker's steps first to last, of 100 ms each, of which step 0 begins at 0.
func steps(first, last int64) (spans []Span) {
	for k := first; k <= last; k++ {
		begin := k * 100 * ms
		add := func(kind Kind, from, to int64) {
			spans = append(spans, Span{Kind: kind, Begin: begin + from*ms, End: begin + to*ms, Step: uint64(k)})
		}
		add(Step, 0, 100)
		add(Data, 0, 5)
		add(Forward, 5, 35)
		add(Backward, 35, 80)
		add(Wait, 80, 99)
		for key := range uint32(2) {
			push := Span{Kind: Push, Begin: begin + (60-20*int64(key))*ms, End: begin + 90*ms, Step: uint64(k), Key: key + 1, Shard: 0, Round: uint64(k), Peer: uint64(key), Bytes: 4000}
			pull := push
			pull.Kind, pull.Round, pull.Begin, pull.End = Pull, push.Round+1, begin+70*ms, begin+95*ms
			spans = append(spans, push, pull)
		}
	}
	return spans
}

// rounds are the spans of the server of a rank, with contributions of the workers of some IDs.
func rounds(rank uint32, first, last int64, workers ...uint64) (spans []Span) {
	for k := first; k <= last; k++ {
		begin := k * 100 * ms
		r := Span{Kind: Round, Begin: begin + 65*ms, End: begin + 89*ms, Key: rank + 1, Round: uint64(k)}
		apply := r
		apply.Kind, apply.Begin = Apply, begin+85*ms
		spans = append(spans, r, apply)
		for i, w := range workers {
			in, out := r, r
			in.Kind, in.Begin, in.End, in.Peer, in.Bytes = Receive, begin+(62+5*int64(i))*ms, begin+(65+5*int64(i))*ms, w, 4000
			out.Kind, out.Round, out.Begin, out.End, out.Peer, out.Bytes = Answer, r.Round+1, begin+89*ms, begin+94*ms, w, 4000
			spans = append(spans, in, out)
		}
	}
	return spans
}

// twoByTwo is a job of two workers and two servers whose clocks are hours apart, with some steps.
func twoByTwo(asked int) *Timeline {
	node := func(id uint64, role string, rank int, offset time.Duration) Node {
		return Node{ID: id, Role: role, Rank: rank, Host: fmt.Sprintf("h%d", rank), PID: uint32(100 + id), Offset: offset, Bound: 80 * time.Microsecond}
	}
	return &Timeline{Job: "j", Steps: asked, Nodes: []Node{
		at(node(1, Server, 0, -time.Hour), rounds(0, 10, 15, 3, 4)...),
		at(node(2, Server, 1, 5*time.Hour), rounds(1, 10, 15, 3, 4)...),
		at(node(4, Worker, 1, 7*time.Millisecond), steps(11, 15)...),
		at(node(3, Worker, 0, 0), steps(10, 14)...),
	}}
}

// A chromeFile is what is read back.
type chromeFile struct {
	OtherData   otherData `json:"otherData"`
	TraceEvents []chromeEvent
}

type chromeEvent struct {
	Phase string `json:"ph"`
	Cat   string
	Name  string
	PID   int
	TID   int
	TS    float64
	Dur   float64
	ID    int
	BP    string
	Args  map[string]any
}

func (f *chromeFile) of(phase string) (list []chromeEvent) {
	for _, e := range f.TraceEvents {
		if e.Phase == phase {
			list = append(list, e)
		}
	}
	return list
}

// lanes are the names of a process's threads, in order.
func (f *chromeFile) lanes(pid int) (names []string) {
	for _, e := range f.of("M") {
		if e.Name == "thread_name" && e.PID == pid {
			names = append(names, e.Args["name"].(string))
		}
	}
	return names
}

// write writes the timeline and reads it back. It holds what is so of every file: events lie in
// named threads, spans of a thread do not overlap, and each flow event lies in a span.
func write(t *testing.T, line *Timeline) (*chromeFile, Summary) {
	t.Helper()
	var b bytes.Buffer
	s, err := line.WriteChrome(&b)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b.Bytes()))
	d.DisallowUnknownFields()
	var f struct {
		chromeFile
		DisplayTimeUnit string
	}
	if err := d.Decode(&f); err != nil {
		t.Fatalf("%v in\n%s", err, b.Bytes())
	}
	named, ends := map[int]bool{}, map[int]float64{}
	for _, e := range f.of("M") {
		named[e.TID] = named[e.TID] || e.Name == "thread_name"
	}
	spans := f.of("X")
	for _, e := range spans {
		if !named[e.TID] || e.TID/100_000 != e.PID {
			t.Errorf("thread %d of process %d has no name: %+v", e.TID, e.PID, e)
		}
		if e.TS < ends[e.TID]-.0005 || e.TS < 0 || e.Dur < 0 {
			t.Errorf("%+v begins before the span before it ended, %v", e, ends[e.TID])
		}
		ends[e.TID] = e.TS + e.Dur
	}
	for _, phase := range []string{"s", "t", "f"} {
		want := map[string]string{"s": "push", "t": "round"}[phase]
		for _, e := range f.of(phase) {
			in := slices.IndexFunc(spans, func(x chromeEvent) bool {
				return x.TID == e.TID && x.TS <= e.TS && (e.TS < x.TS+x.Dur || x.Dur == 0) && (want == "" || x.Cat == want)
			})
			if in < 0 {
				t.Errorf("flow event %+v lies in no span", e)
			}
		}
	}
	return &f.chromeFile, s
}

func TestTimelineGolden(t *testing.T) {
	var b bytes.Buffer
	line := twoByTwo(2)
	line.Nodes[0].Dropped, line.Nodes[0].Missing = 3, "it was declared lost: no heartbeat for 10 s"
	if _, err := line.WriteChrome(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "timeline.json")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%v; another file than %s (go test -run Golden -update writes it):\n%s", err, path, b.Bytes())
	}

	// The result does not depend on the order in which nodes and spans came.
	for range 5 {
		slices.Reverse(line.Nodes)
		for i := range line.Nodes {
			slices.Reverse(line.Nodes[i].Spans)
		}
		b.Reset()
		if _, err := line.WriteChrome(&b); err != nil || !bytes.Equal(b.Bytes(), want) {
			t.Fatalf("%v; the order in which spans came changes the file", err)
		}
	}
}

// Clocks that are hours apart make one timeline: of the steps that both workers have, with an arrow
// from each push to its round to its pull, in this order.
func TestTimelineIsOnOneClock(t *testing.T) {
	f, s := write(t, twoByTwo(3))
	if s.First != 11 || s.Last != 13 || s.Median != 100*time.Millisecond || s.Span != 300*time.Millisecond || len(s.Warnings) != 0 {
		t.Errorf("got %+v, want steps 11 to 13 of 100 ms", s)
	}
	if o := f.OtherData; o.Steps != "11 to 13" || o.BeginNS != day+11*100*ms || o.Asked != 3 || len(o.Nodes) != 4 || string(o.Nodes[2].BoundUS) != "80" || string(o.Nodes[2].OffsetUS) != "-3600000000" {
		t.Errorf("got the metadata %+v", o)
	}
	if want := []string{"step", "data", "forward", "backward", "pull wait", "push 1", "push 2", "pull 1", "pull 2"}; !slices.Equal(f.lanes(1), want) {
		t.Errorf("worker 0 has the lanes %q, want %q", f.lanes(1), want)
	}
	if want := []string{"round", "update", "receive", "answer 1", "answer 2"}; !slices.Equal(f.lanes(3), want) {
		t.Errorf("server 0 has the lanes %q, want %q", f.lanes(3), want)
	}
	const arrows = 2 * 2 * 3 // workers, keys, steps
	from, via, to := f.of("s"), f.of("t"), f.of("f")
	if len(from) != arrows || len(via) != arrows || len(to) != arrows || s.Arrows != arrows || s.Pushes != arrows {
		t.Fatalf("got %d, %d and %d flow events and %+v, want %d arrows", len(from), len(via), len(to), s, arrows)
	}
	for i := range from {
		if from[i].ID != via[i].ID || via[i].ID != to[i].ID || from[i].TS >= via[i].TS || via[i].TS >= to[i].TS || from[i].PID != to[i].PID || via[i].PID < 3 {
			t.Errorf("arrow %d is %+v, %+v, %+v", i, from[i], via[i], to[i])
		}
	}
	for _, e := range f.of("X") {
		if strings.HasPrefix(e.Name, "round ") && e.TS != float64(int64(e.TS/1e5))*1e5+65_000 {
			t.Errorf("a round begins at %v µs, want it 65 ms within a step", e.TS)
		}
	}
}

func TestTimelineTable(t *testing.T) {
	lose := func(n *Node, keep int, why string) {
		n.Missing = why
		n.Spans = n.Spans[:keep]
	}
	for _, c := range []struct {
		name   string
		asked  int
		change func(*Timeline)
		check  func(t *testing.T, f *chromeFile, s Summary)
	}{
		{"a node without spans", 3, func(line *Timeline) { lose(&line.Nodes[2], 0, "it was declared lost") }, func(t *testing.T, f *chromeFile, s Summary) {
			if s.First != 10 || s.Last != 12 || s.Arrows != 6 || !slices.Equal(s.Warnings, []string{"worker 1 on h1: it has no spans here: it was declared lost"}) {
				t.Errorf("got %+v, want the steps of the other worker", s)
			}
			if n := f.OtherData.Nodes[1]; n.Missing != "it was declared lost" || n.Spans != 0 || len(f.OtherData.Warnings) != 1 {
				t.Errorf("the metadata says %+v", n)
			}
			label := slices.IndexFunc(f.TraceEvents, func(e chromeEvent) bool {
				return e.Name == "process_labels" && e.PID == 2 && e.Args["labels"] == "it was declared lost"
			})
			if label < 0 {
				t.Error("the process has no label that says so")
			}
		}},
		{"a worker that ended early", 3, func(line *Timeline) { lose(&line.Nodes[2], 9, "it left the job") }, func(t *testing.T, f *chromeFile, s Summary) {
			if s.First != 10 || s.Last != 12 || s.Arrows != 8 {
				t.Errorf("got %+v, want the steps of the other worker", s)
			}
		}},
		// It has sent all that it has.
		{"a worker that left", 3, func(line *Timeline) {
			line.Nodes[2].Spans = line.Nodes[2].Spans[:9]
		}, func(t *testing.T, f *chromeFile, s Summary) {
			if want := "worker 1 on h1: it made 1 of 3 steps in the window: it left the job, or the window's time was over"; s.First != 10 || s.Last != 12 || !slices.Equal(s.Warnings, []string{want}) {
				t.Errorf("got %+v, want the steps of the other worker, and %q", s, want)
			}
		}},
		{"all ended early", 20, func(line *Timeline) {}, func(t *testing.T, f *chromeFile, s Summary) {
			if s.First != 11 || s.Last != 14 {
				t.Errorf("got %+v, want the steps 11 to 14", s)
			}
		}},
		{"dropped spans", 3, func(line *Timeline) { line.Nodes[3].Dropped = 77 }, func(t *testing.T, f *chromeFile, s Summary) {
			if want := "worker 0 on h0: 77 spans at the end were dropped: it had room for 45"; !slices.Equal(s.Warnings, []string{want}) || f.OtherData.Nodes[0].Dropped != 77 {
				t.Errorf("got the warnings %q and %+v, want %q", s.Warnings, f.OtherData.Nodes[0], want)
			}
		}},
		{"spans across the edges", 3, func(line *Timeline) {
			n := &line.Nodes[3]
			*n = at(*n, Span{Kind: Save, Begin: 1050 * ms, End: 1150 * ms, Step: 10}, Span{Kind: Evaluate, Begin: 1390 * ms, End: 1490 * ms}, Span{Kind: Other, Begin: 1000 * ms, End: 1100 * ms})
		}, func(t *testing.T, f *chromeFile, s Summary) {
			for _, e := range f.of("X") {
				switch {
				case e.Cat == "save" && (e.TS != 0 || e.Dur != 50_000 || e.Args["cut"] != true):
					t.Errorf("got %+v, want the later half", e)
				case e.Cat == "evaluate" && (e.TS != 290_000 || e.Dur != 10_000 || e.Args["cut"] != true):
					t.Errorf("got %+v, want the first tenth", e)
				case e.Cat == "other":
					t.Errorf("got %+v, which is before what is shown", e)
				case e.Cat == "step" && e.Args["cut"] != nil:
					t.Errorf("got %+v, which is whole", e)
				}
			}
		}},
		{"an asynchronous store", 3, func(line *Timeline) {
			for i := range line.Nodes {
				var spans []Span
				for _, s := range line.Nodes[i].Spans {
					switch {
					case s.Kind == Round: // one for each contribution
						s.Peer = 3
						spans = append(spans, s)
						s.Peer = 4
					case line.Nodes[i].ID == 4 && s.Kind == Step:
						s.Step += 1000
					}
					spans = append(spans, s)
				}
				line.Nodes[i].Spans = spans
			}
		}, func(t *testing.T, f *chromeFile, s Summary) {
			if s.First <= s.Last || !strings.HasPrefix(f.OtherData.Steps, "all") || s.Span != 600*time.Millisecond || s.Arrows != 20 {
				t.Errorf("got %+v and steps %q, want all six steps", s, f.OtherData.Steps)
			}
			seen := map[[2]int]bool{}
			for _, e := range f.of("t") {
				seen[[2]int{e.TID, int(e.TS)}] = true
			}
			if len(seen) != 20 {
				t.Errorf("%d contributions go to %d rounds, want each to one of its own", s.Arrows, len(seen))
			}
		}},
		{"pushes without rounds and pulls", 3, func(line *Timeline) {
			line.Nodes[0].Spans = nil
			line.Nodes[3].Spans = slices.DeleteFunc(line.Nodes[3].Spans, func(s Span) bool { return s.Kind == Pull })
		}, func(t *testing.T, f *chromeFile, s Summary) {
			if s.Pushes != 12 || s.Arrows != 6 || len(f.of("t")) != 3 || len(f.of("f")) != 6 {
				t.Errorf("got %+v, %d and %d flow events; want 6 arrows, 3 of which go on to a pull", s, len(f.of("t")), len(f.of("f")))
			}
		}},
		{"a program that reports no steps", 0, func(line *Timeline) {
			for i := range line.Nodes {
				line.Nodes[i].Spans = slices.DeleteFunc(line.Nodes[i].Spans, func(s Span) bool { return s.Kind < Push })
			}
		}, func(t *testing.T, f *chromeFile, s Summary) {
			if s.Median != 0 || f.OtherData.Steps != "none" || s.Arrows != 20 {
				t.Errorf("got %+v", s)
			}
		}},
		{"nothing at all", 3, func(line *Timeline) { line.Nodes = nil }, func(t *testing.T, f *chromeFile, s Summary) {
			if len(f.TraceEvents) != 0 || s.Spans != 0 {
				t.Errorf("got %+v", f.TraceEvents)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			line := twoByTwo(c.asked)
			c.change(line)
			f, s := write(t, line)
			c.check(t, f, s)
		})
	}
}

// A clock that is not known to half a step would show causes after effects.
func TestTimelineIsRefusedWhereClocksAreNotKnown(t *testing.T) {
	line := twoByTwo(3)
	line.Nodes[1].Bound = 50 * time.Millisecond
	if _, err := line.WriteChrome(new(bytes.Buffer)); err != nil {
		t.Errorf("half of a step: %v", err)
	}
	line.Nodes[1].Bound++
	var clock *ClockError
	if _, err := line.WriteChrome(new(bytes.Buffer)); !errors.As(err, &clock) || !strings.Contains(err.Error(), "the clock of server 1 on h1 is known to ±50.000001ms only, more than half of a step (100ms)") {
		t.Errorf("got %v", err)
	}
	line.Nodes[1].Spans = nil // nothing of it is shown
	if _, err := line.WriteChrome(new(bytes.Buffer)); err != nil {
		t.Errorf("without its spans: %v", err)
	}
}

// Nothing that nodes send makes a file that is not JSON.
func TestTimelineOfNonsenseIsJSON(t *testing.T) {
	line := twoByTwo(3)
	n := &line.Nodes[2]
	n.Host, n.Missing, n.Names = "a\"\\\x00\xffb", "\n</script>", []string{"", "\"", "\xff"}
	if err := n.SetClock(maxOffset+1, 0); err == nil {
		t.Error("an offset of more than 73 years is taken")
	}
	if err := n.SetClock(maxOffset, 0); err != nil {
		t.Fatal(err)
	}
	n.Spans = append(n.Spans, Span{Kind: Step, Begin: latest, End: latest, Step: 1 << 63}, Span{Kind: Step, Begin: 0, End: latest}, Span{Kind: Push, Begin: latest, End: 0, Key: 99})
	line.Nodes[3].Offset = -maxOffset
	for _, kind := range []Kind{Round, Step} {
		n.Spans = append(n.Spans, Span{Kind: kind, Peer: 9, Begin: 5, End: 5})
		write(t, line)
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestTimelineSaysThatItCouldNotBeWritten(t *testing.T) {
	if _, err := twoByTwo(3).WriteChrome(&failing{100}); err == nil || err.Error() != "trace: write: disk full" {
		t.Errorf("got %v", err)
	}
}
