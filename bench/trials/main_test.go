package main

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// A search's log says what each trial had, how often it began, and when it ended.
func TestALogIsRead(t *testing.T) {
	dir := t.TempDir()
	result, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		for step, workers := range []float64{2, 2, 4, 4, 3} {
			if r.Trial() == 1 && step == 1 && r.Attempt() == 1 {
				return tune.Fail(tune.NodeLost, os.ErrNotExist)
			}
			if err := r.Report(step+1, map[string]float64{"loss": 1, "workers": workers, "global_batch": 32}); err != nil {
				return err
			}
		}
		return nil
	}, tune.Config{Name: studyName, Space: tune.Space{tune.Grid("epochs", 1, 2)}, Metric: "loss", Mode: tune.Min, Dir: dir, Retries: tune.Retries{NodeLost: 1}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || len(result.Trials()) != 2 {
		t.Fatalf("got %v", err)
	}
	o, err := read(way{name: "a way", epochs: [2]int{1, 2}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range o.trials {
		if got := regexp.MustCompile(`from [0-9.]+ s`).ReplaceAllString(text(c.replicas, c.began), "later"); got != "2; 4 later; 3 later" || len(c.batches) != 1 || c.attempts != 1+i || c.ended < c.began {
			t.Errorf("trial %d: got replicas %s, %d batches, %d attempts, from %v to %v", i, got, len(c.batches), c.attempts, c.began, c.ended)
		}
	}
}

func TestTheTableComparesWithHalvesOfTheSameLengths(t *testing.T) {
	at := func(w way, first, second int) outcome {
		o := outcome{way: w}
		for i, s := range []int{first, second} {
			o.trials[i] = course{replicas: []value{{time.Second, 2}, {3 * time.Second, 4}}, batches: []value{{time.Second, 32}}, attempts: 1, ended: time.Duration(s) * time.Second}
		}
		return o
	}
	var b strings.Builder
	unequal, equal := [2]int{1, 3}, [2]int{2, 2}
	err := write(&b, []outcome{at(way{name: "equal, halves", epochs: equal, halves: true}, 5, 5), at(way{name: "halves", epochs: unequal, halves: true}, 10, 40), at(way{name: "moving", epochs: unequal}, 10, 30)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| moving | 1 | 3 | 2; 4 from 3.0 s | 32 | 0 | 30.0 s |", "| moving | 30.0 s | 40.0 s | 0.75 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant a line %q", b.String(), want)
		}
	}
}
