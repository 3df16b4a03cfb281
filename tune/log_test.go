package tune

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/logfile"
	"github.com/paragon-train/paragon/tune/internal/ruletext"
	"github.com/paragon-train/paragon/tune/internal/studydir"
	"github.com/paragon-train/paragon/tune/jobs"
)

// never is a pruner with settings of all kinds.
type never struct {
	Times  []time.Duration
	Least  float64
	Inner  Pruner
	Pair   [2]int
	Name   string
	Stderr io.Writer
	Custom func()
}

func (never) Prune(View, int) StopDecision { return StopDecision{} }

func TestRulesAreMadeAgainFromTheirText(t *testing.T) {
	want := Config{Space: Space{Real("x", 0, 1)}, KeepDiverged: true, Scope: LastReport,
		Pruners: []Pruner{never{}, &never{Times: []time.Duration{1, 2}, Least: math.Inf(-1), Pair: [2]int{0, 7}, Name: "<\"é", Inner: never{Least: 0.1}, Stderr: io.Discard, Custom: func() {}}}}
	maker := ruletext.NewMaker(ruleKinds)
	maker.Know(Random{}, FIFO{}, never{}, &never{})
	var got Config
	if err := want.rules().applyTo(&got, maker); err != nil {
		t.Fatal(err)
	}
	if differ := want.rules().differs(got.rules()); len(differ) > 0 {
		t.Error(differ)
	}
	if p := got.Pruners[1].(*never); p.Times[1] != 2 || p.Pair[1] != 7 || p.Name != "<\"é" || p.Inner.(never).Least != 0.1 || p.Stderr != nil {
		t.Errorf("got %+v", p)
	}
	self := &never{}
	self.Inner = self
	if text := string((&Config{Pruners: []Pruner{self}}).rules().Pruners[0]); text != `{"*tune.never":null}` {
		t.Errorf("one that holds itself is %s", text)
	}
}

// some are events of every kind.
func some() []Event {
	at := time.Date(2026, 3, 1, 12, 0, 0, 120, time.UTC)
	p := MustParams("lr", 0.1, "layers", 3, "o", "s\"g\nd", "b", true)
	d := Go()
	d.Action, d.Rule, d.Rung, d.Value, d.Cutoff, d.Competitors = Exploit, "pbt", -2, math.Inf(-1), 0, []int{3, 1}
	d.Donor, d.Params = 3, p
	d.Others = []TrialDecision{{Trial: 4, Action: Stop, Rule: "é"}, {Trial: 5, Action: Exploit, Donor: 1}, {Trial: 6, Action: GoOn}}
	events := []Event{
		{Kind: EventStudy, Header: &Header{Version: 1, Name: "toy \"x\"", Metric: "v", Mode: Min, Seed: math.MaxUint64, Space: []string{"real \"x\" [0, 1]", ""}, Suggester: "tune.Random", Scheduler: "tune.FIFO"}},
		{Kind: EventStudy, Header: &Header{}},
		{Kind: EventStudy, Header: &Header{}, Rules: (&Config{Samples: 3}).rules()},
		{Kind: EventStudy, Header: &Header{Objectives: []string{"accuracy max", "latency min"}, Constraints: []string{"memory <= 8"}}},
		{Kind: EventOpen},
		{Kind: EventOpen, Rules: (&Config{Samples: -1, Scope: LastReport, KeepDiverged: true, Suggester: picky{}, Pruners: []Pruner{never{Least: 0.5}}}).rules()},
		{Kind: EventStart, New: true, Trial: 1, Attempt: 1, Params: p, Origin: FromPoint, Location: "10.0.0.7"},
		{Kind: EventStart, New: true, Trial: 1, Attempt: 1, Origin: FromDefault},
		{Kind: EventStart, Trial: 1, Attempt: 2, Donor: 3, Restore: -1, RestoreOf: 1, Rule: "promote"},
		{Kind: EventStart, Trial: 1, Attempt: 2, Params: p},
		{Kind: EventReport, Trial: 1, Attempt: 1, Step: 7, Metrics: Metrics{{"a", math.NaN()}, {"b", math.Inf(1)}, {"c", math.Copysign(0, -1)}, {"d", 1e300}}, Decision: Go()},
		{Kind: EventReport, Trial: 1, Attempt: 1, Step: 7, Metrics: Metrics{}, Decision: d, Kept: true},
		{Kind: EventReport, Trial: 1, Attempt: 1, Step: 8, Metrics: Metrics{{"a", 1}}, Decision: Decision{Action: Continue}},
		{Kind: EventReport, Trial: 1, Attempt: 1, Step: 9, Metrics: Metrics{{"a", 1}}, Decision: Decision{Action: Stop, Rule: "predict", Forecast: &Forecast{Step: 50, Mean: 0.25, Low: math.Inf(-1), High: 0.5, Chance: 0.01, Bound: 0.1, Best: 3, Rival: 7, Target: 0.75}}},
		{Kind: EventCheckpoint, Trial: 1, Attempt: 1, Step: 7, Bytes: 1 << 40},
		{Kind: EventDrop, Trial: 1, Attempt: 1, Step: 7},
		{Kind: EventEnd, Trial: 1, Attempt: 1, Outcome: Broke, Failure: UserCode, Error: "panic: \x00\u2028\x7f", Retry: true},
		{Kind: EventEnd, Trial: 1, Attempt: 1, Outcome: Returned},
		{Kind: EventExhausted},
		{Kind: EventExhausted, Rule: "deadline of 2026-03-01T12:00:00Z: a trial takes 2s, and 1s were left"},
		{Kind: EventOpen, Rules: (&Config{Deadline: at.In(time.FixedZone("", 3600))}).rules()},
		{Kind: EventHalt, Rule: "timeout", Error: "e"},
		{Kind: EventRequeue, Trials: []int{3, 4}, Fresh: true, Rule: "errored"},
		{Kind: EventRequeue},
		{Kind: EventAbandon, Trials: []int{1}},
		{Kind: EventAllocate, Rule: "trial 1 ended", Nodes: []jobs.NodeSlots{{Node: "d1:22", Slots: 4}, {Node: "é", Slots: 0}},
			Jobs:   []jobs.State{{Trial: 0}, {Trial: 2, On: jobs.Placement{{Node: "d1:22", Replicas: 2}, {Node: "é", Replicas: 1}}, Profile: `{"step":3}`, ChangeCost: time.Second, Fixed: "no \"change\""}},
			Shares: []jobs.Share{{Trial: 0, On: jobs.Placement{{Node: "d1:22", Replicas: 4}}, Rule: "it gains most"}, {Trial: 2, Pause: true}}},
		{Kind: EventAllocate},
	}
	for i := range events {
		events[i].Seq, events[i].Time, events[i].At = uint64(i), at.Add(time.Duration(i)*time.Second), time.Duration(i)*time.Second
	}
	return events
}

func TestEventsStayTheSameThroughTheLog(t *testing.T) {
	decode := eventDecoder()
	for _, e := range some() {
		line := appendEvent(nil, &e)
		got, _, err := decode(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if again := appendEvent(nil, &got); !bytes.Equal(again, line) {
			t.Errorf("through the log:\ngot  %swant %s", again, line)
		}
		if !reflect.DeepEqual(got.Params, e.Params) || !reflect.DeepEqual(got.Decision.Forecast, e.Decision.Forecast) || got.Error != e.Error || got.Retry != e.Retry || got.Kept != e.Kept || got.New != e.New || !got.Time.Equal(e.Time) || got.At != e.At ||
			!reflect.DeepEqual(got.Header, e.Header) && e.Header.Objectives != nil || !reflect.DeepEqual(got.Nodes, e.Nodes) || !reflect.DeepEqual(got.Jobs, e.Jobs) || !reflect.DeepEqual(got.Shares, e.Shares) {
			t.Errorf("through the log: got %+v, want %+v", got, e)
		}
	}
}

func FuzzEvent(f *testing.F) {
	for _, e := range some() {
		body, err := logfile.CutSum(bytes.TrimSuffix(appendEvent(nil, &e), []byte("\n")))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		// With a right sum, or no input but the seeds would get past it.
		line := logfile.AppendSum(bytes.Clone(body), 0)
		e, _, err := eventDecoder()(line[:len(line)-1])
		if err != nil {
			return
		}
		if again := appendEvent(nil, &e); !bytes.Equal(again, line) {
			t.Errorf("a line that is read is not the one that is written:\nread    %q\nwritten %q", line, again)
		}
	})
}

func TestADamagedLogIsAnErrorThatNamesFileAndLine(t *testing.T) {
	_, log, _ := whole(t, false)
	lines := bytes.SplitAfter(log, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(parts ...[][]byte) []byte {
		var all []byte
		for _, p := range parts {
			all = append(all, bytes.Join(p, nil)...)
		}
		return all
	}
	flipped := bytes.Clone(lines[9])
	flipped[len(flipped)/2] ^= 1
	for what, tc := range map[string]struct {
		log  []byte
		want string // "": only the end is cut off
	}{
		"a flipped bit":      {join(lines[:9], [][]byte{flipped}, lines[10:]), "line 10 is damaged: ends in"},
		"a missing line":     {join(lines[:9], lines[10:]), "line 10: got event 10, want event 9"},
		"a line twice":       {join(lines[:10], lines[9:]), "line 11: got event 9, want event 10"},
		"an empty line":      {join(lines[:9], [][]byte{[]byte("\n")}, lines[9:]), "line 10 is damaged: got 0 bytes"},
		"a first line cut":   {join([][]byte{lines[0][5:]}, lines[1:]), "line 1 is damaged"},
		"zeros at the end":   {join(lines[:9], [][]byte{make([]byte, 4096)}), ""},
		"half a line":        {join(lines[:9], [][]byte{lines[9][:20]}), ""},
		"no end of line":     {join(lines[:9], [][]byte{bytes.TrimSpace(lines[9])}), ""},
		"several bad lines":  {join(lines[:9], [][]byte{flipped, []byte("x\n"), flipped}), "line 10 and all after it, "},
		"a bad last line":    {join(lines[:9], [][]byte{flipped}), fmt.Sprintf("cut it after its first %d bytes", len(join(lines[:9])))},
		"all lines bad":      {bytes.ReplaceAll(log, []byte(`"seq"`), []byte(`"Seq"`)), "line 1 and all after it, "},
		"one long line":      {bytes.ReplaceAll(log, []byte("\n"), []byte(" ")), "line 1 and all after it, "},
		"zeros within":       {join(lines[:9], [][]byte{lines[9][:20], make([]byte, 4096), lines[12][40:]}), ""},
		"nothing":            {nil, ""},
		"a decision changed": {join(lines[:9], [][]byte{resum(bytes.Replace(lines[9], []byte(`"step":`), []byte(`"step":1`), 1))}, lines[10:]), "event "},
	} {
		disk := &vfs.Mem{}
		if err := vfs.WriteFile(disk, "d/"+studydir.LogName, func(w io.Writer) error { _, err := w.Write(tc.log); return err }); err != nil {
			t.Fatal(err)
		}
		cfg := killConfig("d")
		s, err := newStudy(cfg, disk)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: got %v, want the study to go on", what, err)
				continue
			}
			if err := s.Close(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if good := wholeLines(tc.log, lines); good < len(tc.log) {
				if got := read(t, disk, fmt.Sprintf("d/%s.cut-%d", studydir.LogName, good)); !bytes.Equal(got, tc.log[good:]) {
					t.Errorf("%s: kept %q of what was cut off, want %q", what, got, tc.log[good:])
				}
			}
			if _, err := replay(disk, "d/"+studydir.LogName, killConfig("d")); err != nil {
				t.Errorf("%s: afterwards: %v", what, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), filepath.Join("d", studydir.LogName)) {
			t.Errorf("%s: got %v, want an error with the file and %q", what, err, tc.want)
		}
	}
}

// wholeLines is how many bytes of a log are lines of another, from its beginning.
func wholeLines(log []byte, lines [][]byte) (n int) {
	for _, line := range lines {
		if !bytes.HasPrefix(log[n:], line) {
			break
		}
		n += len(line)
	}
	return n
}

// An editor or git may give each line of a log a carriage return. Nothing is lost by that.
func TestALogWithCarriageReturnsGoesOn(t *testing.T) {
	want, log, _ := whole(t, false)
	half := bytes.SplitAfterN(log, []byte("\n"), 40)
	disk := &vfs.Mem{}
	text := bytes.ReplaceAll(bytes.Join(half[:39], nil), []byte("\n"), []byte("\r\n"))
	if err := vfs.WriteFile(disk, "d/"+studydir.LogName, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		t.Fatal(err)
	}
	finished(t, "carriage returns", disk, "d", want, false)
	if got := read(t, disk, "d/"+studydir.LogName); !bytes.HasPrefix(got, text) {
		t.Error("the lines that were there have changed")
	}
}

// A search must not begin anew where the trials of another one are.
func TestASearchWithTrialsAndWithoutALogIsAnError(t *testing.T) {
	for what, spoil := range map[string]func(log string) error{
		"empty":   func(log string) error { return os.Truncate(log, 0) },
		"removed": os.Remove,
		"zeros":   func(log string) error { return os.WriteFile(log, make([]byte, 4096), 0o666) },
	} {
		for _, resume := range []ResumeMode{ResumeNever, ResumeAuto} {
			cfg := killConfig(filepath.Join(t.TempDir(), "runs[1]")) // no pattern
			s, err := NewStudy(cfg)
			if err != nil {
				t.Fatal(err)
			}
			trial, err := s.TryAsk()
			if err == nil {
				_, err = s.Reporter(trial).Folder()
			}
			if err == nil {
				err = s.Close()
			}
			log := filepath.Join(cfg.Dir, studydir.LogName)
			if err == nil {
				err = spoil(log)
			}
			if err != nil {
				t.Fatal(err)
			}
			cfg = killConfig(cfg.Dir)
			cfg.Resume = resume
			if _, err := NewStudy(cfg); err == nil || !strings.Contains(err.Error(), log) || !strings.Contains(err.Error(), "the folders of 1 trial are there, such as trial-000000") {
				t.Errorf("%s, resume %q: got %v, want an error that names the log and the trials", what, resume, err)
			}
		}
	}
}

// A crash takes no event whose trial has a folder: a log that ends before one has lost more, and
// its end is not cut off.
func TestALogThatEndsBeforeATrialsFolderIsAnError(t *testing.T) {
	cfg := killConfig(t.TempDir())
	s, err := NewStudy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	trial, err := s.TryAsk()
	if err == nil {
		_, err = s.Reporter(trial).Folder()
	}
	if err == nil {
		err = s.Close()
	}
	log := filepath.Join(cfg.Dir, studydir.LogName)
	text, readErr := os.ReadFile(log)
	if err = errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	header := bytes.IndexByte(text, '\n') + 1
	open := func(text []byte) error {
		if err := os.WriteFile(log, text, 0o666); err != nil {
			t.Fatal(err)
		}
		cfg = killConfig(cfg.Dir)
		cfg.Resume = ResumeAuto
		s, err := NewStudy(cfg)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	zeros := append(bytes.Clone(text[:header]), make([]byte, len(text)-header)...)
	want := fmt.Sprintf("the log ends before trial-000000, whose folder is there; a crash does not cause this: restore the file from a copy, or cut it after its first %d bytes", header)
	if err := open(zeros); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("zeros: got %v, want %q", err, want)
	}
	if got, err := os.ReadFile(log); err != nil || !bytes.Equal(got, zeros) {
		t.Errorf("the log was changed: %q, %v", got, err)
	}
	if err := open(text[:header]); err != nil { // cut as the error says
		t.Errorf("cut: %v", err)
	}
	if err := open(append(bytes.Clone(text), `{"seq":`...)); err != nil {
		t.Errorf("the rest of a batch behind the start: %v", err)
	}
}

// Where two sets of rules are not equal, the difference is named, even if it is only that one rule
// is a pointer.
func TestWhatDiffersInRulesIsNamed(t *testing.T) {
	value, pointer := (&Config{Pruners: []Pruner{never{}}}).rules(), (&Config{Pruners: []Pruner{&never{}}}).rules()
	if value.key() == pointer.key() {
		t.Fatalf("both have the key %s", value.key())
	}
	want := []string{`the list of pruners was {"tune.never":{}} and is now {"*tune.never":{}}`}
	if got := value.differs(pointer); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// resum gives a line that was changed a right sum.
func resum(line []byte) []byte {
	return logfile.AppendSum(bytes.Clone(line[:bytes.LastIndex(line, []byte(`,"sum":"`))]), 0)
}

func TestAChangedConfigurationIsAnErrorThatSaysWhatChanged(t *testing.T) {
	_, log, _ := whole(t, false)
	for want, change := range map[string]func(*Config){
		"Seed was 7 and is now 8":     func(c *Config) { c.Seed = 8 },
		"Metric was v and is now w":   func(c *Config) { c.Metric = "w" },
		"Mode was max and is now min": func(c *Config) { c.Mode = Min },
		`the space had real "x" [0, 1] and has now real "x" [0, 2]: put it back, or search in another folder`: func(c *Config) { c.Space = Space{Real("x", 0, 2), c.Space[1]} },
		"the number of parameters and points was 2 and is now 3":                                              func(c *Config) { c.DefaultFirst = true },
		"the folder already holds a study: set Config.Resume to resume it":                                    func(c *Config) { c.Resume = ResumeNever },
		"in the log, want": func(c *Config) { c.Scheduler = nil },
	} {
		disk := &vfs.Mem{}
		if err := vfs.WriteFile(disk, "d/"+studydir.LogName, func(w io.Writer) error { _, err := w.Write(log); return err }); err != nil {
			t.Fatal(err)
		}
		cfg := killConfig("d")
		change(&cfg)
		if _, err := newStudy(cfg, disk); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestReplaySaysAtWhichEventItDiffers(t *testing.T) {
	_, log, _ := whole(t, false)
	lines := bytes.SplitAfter(log, []byte("\n"))
	for i, line := range lines {
		if !bytes.Contains(line, []byte(`"action":"pause"`)) {
			continue
		}
		lines[i] = resum(bytes.Replace(line, []byte(`"action":"pause"`), []byte(`"action":"stop"`), 1))
		disk := &vfs.Mem{}
		if err := vfs.WriteFile(disk, "log", func(w io.Writer) error { _, err := w.Write(bytes.Join(lines, nil)); return err }); err != nil {
			t.Fatal(err)
		}
		_, err := replay(disk, "log", killConfig(""))
		diverged, ok := errors.AsType[*DivergedError](err)
		if !ok || diverged.Seq != uint64(i) || !strings.Contains(diverged.Want, `"pause"`) || !strings.Contains(diverged.Got, `"stop"`) {
			t.Errorf("got %v, want a difference at event %d", err, i)
		}
		return
	}
	t.Error("the log has no pause")
}

func TestAFullDiskEndsTheSearchAndWhatIsThereGoesOn(t *testing.T) {
	want, log, _ := whole(t, false)
	for _, room := range []int{0, 100, 1000, len(log) / 2, len(log) * 3 / 4} {
		disk := &vfs.Mem{}
		s, err := newStudy(killConfig("d"), &vfs.Faulty{FS: disk, CrashAfter: -1, Room: int64(room)})
		if err == nil {
			err = simulate(s, false)
			if _, again := s.TryAsk(); !errors.Is(again, vfs.ErrFull) {
				t.Errorf("room for %d bytes: asked again: got %v, want %v", room, again, vfs.ErrFull)
			}
			_ = s.Close()
		}
		if !errors.Is(err, vfs.ErrFull) || !strings.Contains(err.Error(), fmt.Sprintf("log %s: append", filepath.Join("d", studydir.LogName))) {
			t.Errorf("room for %d bytes: got %v, want an error that names the log", room, err)
		}
		finished(t, fmt.Sprintf("room for %d bytes", room), disk, "d", want, false)
	}
}
