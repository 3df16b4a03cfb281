package tune

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune/internal/studydir"
	"github.com/paragon-train/paragon/tune/jobs"
)

func TestASpaceIsReadFromItsHeader(t *testing.T) {
	cfg := Config{Name: "toy", Seed: 7, DefaultFirst: true, Space: Space{
		Real("lr", 1e-5, 2.5).Log().Default(0.01), Real("q \"é\n", -1e10, 1e10).Quantise(0.25), Int("layers", -3, 1<<40).Step(2), Bool("b"),
		Choice("o", "a]", "s g\"d", int64(1), true), Grid("axis", 1, 2.5), Normal("n", -1, 0.5).Quantise(0.1), LogNormal("ln", 0, 1),
		Real("m", 0, 1).When("o", "a]", int64(1)), Derived("d", func(Params) any { return 1 }),
	}, Points: []Point{{"lr": 0.1, "o": "a]"}, {}},
		Objectives:  []Objective{{"accuracy of all", Max}, {"latency", Min}},
		Constraints: []Constraint{{"mem <= x", 8.5, false}, {"mem <= x", -1e-9, true}}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	want := cfg.header()
	got, err := want.config()
	if err != nil {
		t.Fatal(err)
	}
	h := got.header()
	h.Suggester, h.Scheduler = want.Suggester, want.Scheduler // they are in the config's logged
	if !reflect.DeepEqual(h, want) || *got.logged != (loggedRules{"tune.Random", "tune.FIFO"}) {
		t.Errorf("got %+v %+v,\nwant %+v", h, got.logged, want)
	}
	for i, p := range got.Space {
		p.Derive, cfg.Space[i].Derive = nil, nil
		if !reflect.DeepEqual(p.Spec, cfg.Space[i].Spec) {
			t.Errorf("got parameter %+v, want %+v", p.Spec, cfg.Space[i].Spec)
		}
	}

	for text, h := range map[string]*Header{
		"version 9":                  {Version: 9},
		"space[0]: got \"teal":       {Version: 1, Space: []string{`teal "x" [0, 1]`}},
		"space[1]: got \"bool":       {Version: 1, Space: []string{`bool "x"`, `bool "y" more`}},
		"want a name in quotes":      {Version: 1, Space: []string{`real x [0, 1]`}},
		"want a number":              {Version: 1, Space: []string{`real "x" [a, 1]`}},
		"range [1, 0]":               {Version: 1, Space: []string{`real "x" [1, 0]`}},
		"objectives[1]: got \"lat\"": {Version: 1, Objectives: []string{"accuracy max", "lat"}},
		"constraints[0]: got \"a\"":  {Version: 1, Metric: "v", Constraints: []string{"a"}},
	} {
		if _, err := h.config(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: got error %v, want it to say %s", h, err, text)
		}
	}
}

// A log may say what no search decides: that is an error, and nothing falls over.
func TestAResultIsNotReadFromALogThatMakesNoSense(t *testing.T) {
	study := Event{Kind: EventStudy, Header: &Header{Version: 1, Metric: "a"}}
	start := Event{Kind: EventStart, New: true, Attempt: 1, Origin: FromSuggester}
	exploit := Go()
	exploit.Action, exploit.Donor = Exploit, 99
	stopOther := Go()
	stopOther.Others = []TrialDecision{{Trial: 99, Action: Stop}}
	report := func(d Decision) Event {
		return Event{Kind: EventReport, Attempt: 1, Step: 1, Metrics: Metrics{{"a", 1}}, Decision: d}
	}
	share := func(trial int, on jobs.Placement) Event {
		return Event{Kind: EventAllocate, Nodes: []jobs.NodeSlots{{Node: "d1", Slots: 1}}, Jobs: []jobs.State{{Trial: trial}}, Shares: []jobs.Share{{Trial: trial, On: on}}}
	}
	for text, events := range map[string][]Event{
		"it has no event":                                   {},
		"the first event is not a study event":              {start},
		"event 1: a study event":                            {study, study},
		"event 2: the decision {\"action\":\"exploit\"":     {study, start, report(exploit)},
		"\"trial\":99,\"action\":\"stop\"}]} is impossible": {study, start, report(stopOther)},
		"event 2: divides nodes among trial 4":              {study, start, share(4, nil)},
		"node d1 has 1 slots left":                          {study, start, share(0, jobs.Placement{{Node: "d1", Replicas: 2}})},
		"event 2: starts new trial 0":                       {study, start, start},
		"event 1: requeues trial 3":                         {study, {Kind: EventRequeue, Trials: []int{3}}},
		"event 1: drops a checkpoint of trial 0":            {study, {Kind: EventDrop}},
		"event 1: end of trial 0":                           {study, {Kind: EventEnd, Attempt: 1, Outcome: Returned}},
	} {
		var log []byte
		for i, e := range events {
			e.Seq = uint64(i)
			log = appendEvent(log, &e)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, studydir.LogName), log, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadResult(dir); err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got error %v", text, err)
		}
	}
	if _, err := ReadResult(t.TempDir()); err == nil {
		t.Error("a folder without a log is read")
	}
}
