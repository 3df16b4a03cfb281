package telemetry

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// A record brings the scores as they were set, but for those that have no place: too many, with a
// name that is none, or one that is there already.
func TestRecordHasTheScores(t *testing.T) {
	var r Recorder
	if b := (&Record{Samples: []Sample{{Loss, 0, 1}}}).Append(nil); len(b) != head+10 {
		t.Errorf("a record without scores has %d bytes, want those that it had before there were any", len(b))
	}
	r.SetScores([]Score{{"top5", .5}, {"a b", 1}, {"top5", .6}, {"", 1}, {"5top", 1}, {"é", 1}, {strings.Repeat("x", MaxScoreName+1), 1}, {"f1", math.Inf(1)}})

	// It has a name only in SetScores.
	r.Set(TestScore, 9)
	want := []Score{{"top5", .5}, {"f1", math.Inf(1)}}
	got := r.Record()
	if !slices.Equal(got.Scores, want) || len(got.Samples) != 0 {
		t.Errorf("got scores %v and samples %v, want %v and none", got.Scores, got.Samples, want)
	}
	if again, err := Decode(got.Append(nil)); err != nil || !slices.Equal(again.Scores, want) {
		t.Errorf("decoded %v, %v, want %v", again.Scores, err, want)
	}
	r.SetScores(manyScores(MaxScores + 3))
	many := r.Values()
	if again, err := Decode(many.Append(nil)); err != nil || !slices.Equal(again.Scores, manyScores(MaxScores)) {
		t.Errorf("of too many: decoded %v, %v, want the first %d", again.Scores, err, MaxScores)
	}
	r.SetScores(nil)
	if got := r.Record().Scores; len(got) != 0 {
		t.Errorf("after an evaluation without scores there are %v", got)
	}
	var none *Recorder
	none.SetScores(want)
}

// manyScores are so many with the longest names.
func manyScores(n int) (list []Score) {
	for i := range n {
		list = append(list, Score{fmt.Sprintf("%s%02d", strings.Repeat("x", MaxScoreName-2), i), float64(i)})
	}
	return list
}

// The largest record of a worker fits, and what a peer may not send is refused before memory is
// taken for it.
func TestScoresKeepToTheirSize(t *testing.T) {
	r := Record{Samples: make([]Sample, MaxSamples), Steps: make([]Step, MaxSteps), Scores: manyScores(MaxScores)}
	for i := range r.Steps {
		r.Steps[i].Number = uint64(i + 1)
	}
	if b := r.Append(nil); len(b) > MaxRecord {
		t.Errorf("the largest record has %d bytes, want at most %d", len(b), MaxRecord)
	}
	empty := []byte{format, 0, 0, 0}
	value := make([]byte, 8)
	good := slices.Concat(empty, []byte{1, 2}, []byte("f1"), value)
	if got, err := Decode(good); err != nil || !slices.Equal(got.Scores, []Score{{"f1", 0}}) {
		t.Fatalf("got %v, %v, want the score f1", got.Scores, err)
	}
	for what, b := range map[string][]byte{
		"no score":           slices.Concat(empty, []byte{0}),
		"too many":           slices.Concat(empty, []byte{MaxScores + 1}, bytes.Repeat(good[5:], MaxScores+1)),
		"fewer than it says": slices.Concat(empty, []byte{2}, good[5:]),
		"no value":           good[:len(good)-1],
		"a byte too many":    append(slices.Clone(good), 0),
		"a name behind it":   slices.Concat(empty, []byte{1, 200}, value),
		"a long name":        slices.Concat(empty, []byte{1, MaxScoreName + 1}, bytes.Repeat([]byte("x"), MaxScoreName+1), value),
		"no name":            slices.Concat(empty, []byte{1, 0}, value),
		"a name of markup":   slices.Concat(empty, []byte{1, 2}, []byte("<b"), value),
		"a name twice":       slices.Concat(empty, []byte{2}, good[5:], good[5:]),
		"with blames":        slices.Concat((&Record{Blames: []Blame{{Node: 1}}}).Append(nil), good[4:]),
	} {
		if got, err := Decode(b); err == nil {
			t.Errorf("%s: got %v, want an error", what, got.Scores)
		}
	}
	if got, err := Decode((&Record{Samples: []Sample{{TestScore, 0, 1}}}).Append(nil)); err != nil || len(got.Samples) != 0 {
		t.Errorf("a score without a name: got %v, %v, want it left out", got.Samples, err)
	}
}

// A name has one index, whichever process sends it in whichever order; a History has room for so
// many names, whatever processes send.
func TestScoresOfAHistory(t *testing.T) {
	h := NewHistory(begin, 1e9)
	h.Add(after(1), 1, &Record{Scores: []Score{{"top5", .5}, {"f1", .25}}})
	h.Add(after(1), 2, &Record{Scores: []Score{{"f1", .75}}})
	if got := h.Scores(); !slices.Equal(got, []string{"top5", "f1"}) {
		t.Errorf("the names are %q, want top5 and f1", got)
	}
	if a, b, c := h.Newest(1, Column{TestScore, 1}), h.Newest(2, Column{TestScore, 1}), h.Newest(2, Column{TestScore, 0}); a != .25 || b != .75 || !math.IsNaN(c) {
		t.Errorf("f1 is %v and %v, and top5 of the second process %v; want 0.25, 0.75 and none", a, b, c)
	}
	for node := range uint64(9) {
		h.Add(after(2), 3+node, &Record{Scores: []Score{{fmt.Sprint("a", node), 1}, {fmt.Sprint("b", node), 1}}})
	}
	if got := h.Scores(); len(got) != MaxScores {
		t.Errorf("there are %d names, %q, want at most %d", len(got), got, MaxScores)
	}
	if got := h.Columns([]Metric{TestScore}); len(got) != MaxScores {
		t.Errorf("there are %d columns of scores, want %d", len(got), MaxScores)
	}
}

// A name has letters, digits and "_", and begins with no digit.
func TestNamesOfScores(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "z": true, "A": true, "Z": true, "_": true, "a0": true, "a9": true, "azAZ_09": true, "": false, "0": false, "9a": false,
		"`": false, "{": false, "@": false, "[": false, "a/": false, "a:": false, "a-b": false, "é": false, strings.Repeat("z", 32): true, strings.Repeat("z", 33): false} {
		if got := IsScoreName(name); got != want {
			t.Errorf("%q: got %t, want %t", name, got, want)
		}
	}
}
