package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestAccuracyIsReadFromLines(t *testing.T) {
	var p progress
	for _, line := range []string{"worker 0 | Epoch 0: step 5/40, loss 2.1", "worker 0 | Epoch 0: Test_acc 0.812500, Test_loss 0.7 (500 examples in 1.0 s)", "other"} {
		p.read(line)
	}
	if p.accuracy != 0.8125 || len(p.steps()) != 2 {
		t.Errorf("got accuracy %v and %d lines of progress, want 0.8125 and 2", p.accuracy, len(p.steps()))
	}
}

func TestTimeWithoutProgress(t *testing.T) {
	begin := time.Now()
	var steps []event
	for _, s := range []int{0, 1, 2, 7, 8, 30} {
		steps = append(steps, event{At: begin.Add(time.Duration(s) * time.Second)})
	}
	for _, test := range []struct{ from, to, want int }{{1, 3, 5}, {3, 8, 22}, {3, 7, 4}} {
		got := gap(steps, begin.Add(time.Duration(test.from)*time.Second), begin.Add(time.Duration(test.to)*time.Second))
		if got != time.Duration(test.want)*time.Second {
			t.Errorf("from %d to %d s: got %v, want %d s", test.from, test.to, got, test.want)
		}
	}
}

// Memory and files that grow from quarter to quarter are found, noise is not.
func TestGrowthIsFound(t *testing.T) {
	for _, test := range []struct {
		// rss and files are what each sample has more than the one before.
		rss, files int

		want string
	}{{0, 0, ""}, {5, 0, ""}, {1000, 0, "memory of a server grows"}, {0, 3, "open files of a server grow"}} {
		j := &job{}
		for i := range 200 {
			j.use = append(j.use, sample{process{role: "server"}, 50_000 + i*test.rss, 20 + i*test.files})
		}
		if wrong := fmt.Sprint(j.growth(io.Discard, nil)); (test.want == "") != (wrong == "[]") || !strings.Contains(wrong, test.want) {
			t.Errorf("%+v: got %v", test, wrong)
		}
	}
}
