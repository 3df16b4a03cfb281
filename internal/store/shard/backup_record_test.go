package shard

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// What a record says comes from another process: one that cannot be is refused, changes nothing and
// holds no memory.
func TestRecordsThatCannotBeAreRefused(t *testing.T) {
	average := Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleAverage, Length: 2, Size: 2, Shards: 1}
	rows := Config{Name: "e", Form: wire.FormRows, Rule: wire.RuleOptimizer, Length: 6, Size: 6, RowLen: 2, Shards: 1}
	dense := average
	dense.Rule = wire.RuleOptimizer
	one := []CountedPush{{Node: node(0), Seq: 1, Weight: 1}}
	for _, c := range []struct {
		name string
		cfg  Config
		r    Record
		data bool
	}{
		{"a sum without an optimizer", dense, Record{Form: wire.RecordSum, Counts: one}, true},
		{"a value without data", dense, Record{Form: wire.RecordValue, Counts: one}, false},
		{"a value of rows", rows, Record{Form: wire.RecordValue, Counts: one}, true},
		{"rows of a dense key", dense, Record{Form: wire.RecordRows, Rows: 1, Counts: one}, true},
		{"rows without data", rows, Record{Form: wire.RecordRows, Rows: 1, Counts: one}, false},
		{"the newest of a key with an optimizer", dense, Record{Form: wire.RecordNewest, Counts: one}, true},
		{"the newest without data", average, Record{Form: wire.RecordNewest, Counts: one}, false},
		{"the newest of nobody", average, Record{Form: wire.RecordNewest}, true},
		{"the newest of two", average, Record{Form: wire.RecordNewest, Counts: append(one, one...)}, true},
		{"a form that is not known", dense, Record{Form: 200, Counts: one}, true},
		{"an optimizer that is none", dense, Record{Form: wire.RecordNone, Configured: true, Config: "{"}, false},
	} {
		s, err := New(c.cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		setWorkers(t, s, 1, 1)
		var data *Buffer
		if c.data {
			data = s.cfg.Pool.Get(64)
			clear(data.Bytes(64))
		}
		if err := s.Follow(&c.r, data); codeOf(err) != wire.CodeMalformed {
			t.Errorf("%s: got %v, want code %v", c.name, err, wire.CodeMalformed)
		}
		if s.Rounds() != 0 {
			t.Errorf("%s: got %d rounds, want 0", c.name, s.Rounds())
		}
	}
}

// The norms in a state become the measure for others: those that are no norms are refused.
func TestAStateWithBadNormsIsRefused(t *testing.T) {
	s, _ := watched(t, Guard{Factor: 3, Window: 9, Warmup: 3}, 1, 2, wire.RuleOptimizer)
	x, err := s.BeginFill()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		norm float64
		want wire.Code
	}{{1e-300, 0}, {5, 0}, {math.MaxFloat64, 0}, {0, wire.CodeMalformed}, {-1, wire.CodeMalformed}, {math.Inf(1), wire.CodeMalformed}, {math.Inf(-1), wire.CodeMalformed}, {math.NaN(), wire.CodeMalformed}} {
		x.Norms = []float64{1, c.norm}
		if _, err := Restore(*s.Config(), &x, 1, nil); codeOf(err) != c.want {
			t.Errorf("norm %v: got %v, want code %v", c.norm, err, c.want)
		}
	}
}

// Norms far below 1, as gradients of a mean have, are a measure like all others.
func TestSmallNormsAreAMeasureToo(t *testing.T) {
	s, caught := watched(t, Guard{Factor: 3, Window: 9, Warmup: 3}, 1, 2, wire.RuleOptimizer)
	for round := range uint64(6) {
		mustPush(t, s, contribution(s, 0, round, 0.003, 0.004), Held)
	}
	mustPush(t, s, contribution(s, 0, 6, 0.3, 0.4), Held)
	if len(*caught) != 1 || (*caught)[0].Round != 6 {
		t.Errorf("a gradient of a hundred times the norm of those before: caught %+v, want it", *caught)
	}
}

func TestOnlyAnOpenVocabularyIsOpen(t *testing.T) {
	for _, shards := range []int{1, 3} {
		for rows, want := range map[uint64]bool{0: true, 1: false, 2: false, 1 << 40: false} {
			if s := NewSpread(rows, shards); s.Open() != want {
				t.Errorf("%d rows over %d shards: open %v, want %v", rows, shards, s.Open(), want)
			}
		}
	}
}
