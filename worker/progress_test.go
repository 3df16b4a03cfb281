package worker

import (
	"bytes"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// progressText is what a Progress with a terminal of so many columns (0: none) writes of a run of
// two epochs of 20 steps, the second cut off in the middle.
func progressText(t *testing.T, columns int) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		p := &Progress{out: &out, columns: func() int { return columns }}
		p.Begin(Run{Rank: 1, Workers: 2, Epochs: 12, StepsPerEpoch: 20, FirstEpoch: 10, FirstStep: 10, ResumedFrom: "runs/step-00000210"})
		for step := 10; step < 20; step++ {
			time.Sleep(time.Minute)
			p.Step(StepInfo{Epoch: 10, Step: step, Loss: 2.5, Examples: 64})
			if step == 14 {
				time.Sleep(time.Hour) // which the examples/s leave out
				p.Evaluated(10, Evaluation{Step: 15, Train: 5 * time.Minute, Scores: Scores{Loss: 2.25, Accuracy: 0.2, Examples: 100}, Time: time.Hour})
			}
		}
		p.Epoch(EpochInfo{Epoch: 10, Loss: 2.5, Examples: 640, Train: 10 * time.Minute, Test: &Scores{Loss: 2, Accuracy: 0.25, Examples: 100}, TestTime: time.Second})
		for step := range 10 {
			time.Sleep(time.Minute)
			p.Step(StepInfo{Epoch: 11, Step: step, Loss: 1.5, Examples: 64})
		}
		p.End()
	})
	return out.String()
}

var afterEpoch = []string{
	"Epoch 10: step 15: Test_acc 0.200000, Test_loss 2.250000 after 300.0 s (100 examples in 3600.0 s)",
	"Epoch 10: Train_loss 2.500000, 640 examples in 600.0 s (1 examples/s)",
	"Epoch 10: Test_acc 0.250000, Test_loss 2.000000 (100 examples in 1.0 s)",
}

func TestProgressPrintsPlainLinesWithoutATerminal(t *testing.T) {
	want := append([]string{"Worker 1 of 2: 12 epochs of 20 steps", "Resumed from runs/step-00000210: epoch 10, step 10",
		"Epoch 10: step 11/20, loss 2.5000, 1 examples/s", "Epoch 10: step 12/20, loss 2.5000, 1 examples/s", "Epoch 10: step 14/20, loss 2.5000, 1 examples/s",
		"Epoch 10: step 16/20, loss 2.5000, 1 examples/s", "Epoch 10: step 18/20, loss 2.5000, 1 examples/s"}, afterEpoch...)
	for _, columns := range []int{0, 60} { // too narrow for a bar, too
		got := progressText(t, columns)
		for _, line := range want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("columns=%d: got\n%s\nwant the line %q", columns, got, line)
			}
		}
		if strings.Contains(got, "\r") {
			t.Errorf("columns=%d: got\n%q\nwant no bar", columns, got)
		}
	}
}

// Whoever resumes a run that has come to its end reads why nothing follows.
func TestProgressSaysThatNothingIsLeft(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{out: &out, columns: func() int { return 0 }}
	p.Begin(Run{Workers: 1, Epochs: 2, StepsPerEpoch: 20, FirstEpoch: 2, ResumedFrom: "ckpt/step-00000040"})
	if want := "Resumed from ckpt/step-00000040: nothing is left to train after 2 epochs; with more epochs the run goes on from there\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want a last line %q", out.String(), want)
	}
}

// clearLine is what a terminal understands as: empty this line, and go to its beginning.
const clearLine = "\x1b[2K\r"

func TestProgressDrawsABarThatFits(t *testing.T) {
	for _, columns := range []int{80, 100, 200} {
		got := progressText(t, columns)
		for _, drawn := range regexp.MustCompile("\r|\n|\x1b\\[2K").Split(got, -1) {
			if n := len([]rune(drawn)); n >= columns && !strings.HasPrefix(strings.TrimSpace(drawn), "Epoch 10: ") {
				t.Errorf("columns=%d: a line of %d: %q", columns, n, drawn)
			}
		}
		if !strings.Contains(got, "Epoch 11  loss 1.5000      1/s  45% |") {
			t.Errorf("columns=%d: got\n%q\nwant a bar at 45 %%, the step before", columns, got)
		}
		for _, line := range afterEpoch {
			if !strings.Contains(got, "\r"+line+"\n") && !strings.Contains(got, "\n"+line+"\n") {
				t.Errorf("columns=%d: got\n%q\nwant the line %q, with nothing before it", columns, got, line)
			}
		}
		if !strings.HasSuffix(got, clearLine) {
			t.Errorf("columns=%d: ends with %q, want a line that was cleared", columns, got[max(0, len(got)-40):])
		}
	}
}

func TestReportSaysWhereTheTimeWent(t *testing.T) {
	epochs := []EpochInfo{
		{Epoch: 0, Loss: 2.5, Examples: 1000, Train: 10 * time.Second, Times: Times{Compute: 8 * time.Second, Wait: 1700 * time.Millisecond, Save: 200 * time.Millisecond, Data: 100 * time.Millisecond}},
		{Epoch: 1, Loss: 1.5, Examples: 2000, Train: 10 * time.Second, Times: Times{Compute: 10 * time.Second}, Test: &Scores{Loss: 1.25, Accuracy: 0.5}, TestTime: 2 * time.Second},
	}
	want := strings.Join([]string{
		"epoch  train loss  test loss  test acc  examples/s  compute    wait   data   save  train  test",
		"-----  ----------  ---------  --------  ----------  -------  ------  -----  -----  -----  ----",
		"0          2.5000                              100   80.0 %  17.0 %  1.0 %  2.0 %    10s    0s",
		"1          1.5000     1.2500    0.5000         200  100.0 %   0.0 %  0.0 %  0.0 %    10s    2s",
		"all        1.5000     1.2500    0.5000         150   90.0 %   8.5 %  0.5 %  1.0 %    20s    2s",
		"",
	}, "\n")
	var out bytes.Buffer
	if err := WriteReport(&out, epochs); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCurvesPlaceStepsInTheirEpoch(t *testing.T) {
	panels := Curves("run", []EpochInfo{
		{Epoch: 1, First: 2, Losses: []float64{4, 3}, Test: &Scores{Loss: 3.5, Accuracy: 0.25}}, // resumed in the middle
		{Epoch: 2, Losses: []float64{2, 1, 1, 1}},
	})
	if len(panels) != 2 {
		t.Fatalf("got %d panels, want loss and accuracy", len(panels))
	}
	train := panels[0].Series[0]
	for i, want := range []float64{1.75, 2, 2.25, 2.5, 2.75, 3} {
		if train.X[i] != want {
			t.Errorf("step %d of the run is at %v, want %v", i, train.X[i], want)
		}
	}
	wantPoints(t, panels)
}

// wantPoints checks that the panels can be drawn: each series has as many x as y, and one has some.
func wantPoints(t *testing.T, panels []metrics.Panel) {
	t.Helper()
	for _, p := range panels {
		points := 0
		for _, s := range p.Series {
			points += len(s.X)
			if len(s.X) != len(s.Y) {
				t.Errorf("panel of %s, series %q: got %d x and %d y, want equally many", p.Y, s.Name, len(s.X), len(s.Y))
			}
		}
		if points == 0 {
			t.Errorf("panel of %s: got no points", p.Y)
		}
	}
}

func TestDefaultThreadsShareTheCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for devices, want := range map[int]int{0: 8, 1: 8, 2: 4, 3: 2, 8: 1, 100: 1} {
		if got := DefaultThreads(devices); got != want {
			t.Errorf("%d devices on 8 cores: got %d threads each, want %d", devices, got, want)
		}
	}
}

// Who reads the output or the table learns when workers came and went, and what it did to the
// speed.
func TestChangesOfTheWorkersAreShown(t *testing.T) {
	spans := []Span{
		{Epoch: 1, First: 0, Workers: 2, Steps: 20, Examples: 160, Train: 4 * time.Second},
		{Epoch: 1, First: 20, Workers: 4, Steps: 10, Examples: 80, Train: time.Second},
	}
	for _, columns := range []int{0, 100} {
		var out bytes.Buffer
		p := &Progress{out: &out, columns: func() int { return columns }}
		p.Begin(Run{Rank: 2, Workers: 2, Epochs: 3, StepsPerEpoch: 40, FirstEpoch: 1, FirstStep: 7, Joined: true})
		p.Step(StepInfo{Epoch: 1, Step: 19, Steps: 40, Loss: 1, Examples: 8})
		p.Membership(MembershipInfo{Epoch: 1, Step: 20, Rank: 1, Before: 2, Workers: 4, Span: spans[0]})
		p.Step(StepInfo{Epoch: 1, Step: 20, Steps: 30, Loss: 1, Examples: 8})
		p.Epoch(EpochInfo{Epoch: 1, Spans: spans})
		for _, line := range []string{
			"Worker 2 of 2: 3 epochs of 40 steps", "Joined the running job: epoch 1, step 7",
			"Epoch 1: workers changed from 2 to 4 at step 20 (5.0 steps/s before); this is worker 1",
			"Epoch 1: steps 0 to 19 with 2 workers: 5.0 steps/s", "Epoch 1: steps 20 to 29 with 4 workers: 10.0 steps/s",
		} {
			if !strings.Contains(out.String(), line+"\n") {
				t.Errorf("columns=%d: got\n%q\nwant the line %q", columns, out.String(), line)
			}
		}
		if columns == 0 && !strings.Contains(out.String(), "step 21/30") {
			t.Errorf("got\n%s\nwant a step of 30, as many as the epoch has with four workers", out.String())
		}
	}
	want := strings.Join([]string{
		"workers  from epoch  step  steps  steps/s  examples/s",
		"-------  ----------  ----  -----  -------  ----------",
		"      2           0     0     60   5.0000          40",
		"      4           1    20     10  10.0000          80",
		"",
	}, "\n")
	before := Span{Epoch: 0, Workers: 2, Steps: 40, Examples: 320, Train: 8 * time.Second}
	var out bytes.Buffer
	if err := WriteReport(&out, []EpochInfo{{Spans: []Span{before}}, {Epoch: 1, Spans: spans}}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\n\n"+want) {
		t.Errorf("got\n%s\nwant at the end\n%s", out.String(), want)
	}
	out.Reset()
	if err := WriteReport(&out, []EpochInfo{{Spans: []Span{before}}}); err != nil || strings.Contains(out.String(), "workers") {
		t.Errorf("no change: got\n%s (%v), want no second table", out.String(), err)
	}
}

// Where examples are read from files the lines have the share of waits, and damaged examples are
// told.
func TestProgressTellsWaitsForData(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		p := &Progress{out: &out, columns: func() int { return 0 }}
		p.Begin(Run{Workers: 1, Epochs: 1, StepsPerEpoch: 4, Data: DataInfo{Fingerprint: "folder:1"}})
		for step := range 4 {
			time.Sleep(10 * time.Second)
			p.Step(StepInfo{Step: step, Loss: 1, Examples: 100, Took: 10 * time.Second, Times: Times{Data: time.Duration(step) * time.Second}})
		}
		p.Epoch(EpochInfo{Loss: 1, Examples: 400, Train: 40 * time.Second, Times: Times{Data: 6 * time.Second}, Bad: 2, Test: &Scores{Bad: 1}})
	})
	for _, want := range []string{
		"Epoch 0: step 1/4, loss 1.0000, 10 examples/s, 0.0 % waiting for data\n", "Epoch 0: step 3/4, loss 1.0000, 10 examples/s, 20.0 % waiting for data\n",
		"Epoch 0: 15.0 % of the time waiting for data\n", "Epoch 0: 2 damaged examples left out on all workers\n", "Epoch 0: 1 damaged example left out of the evaluation\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant the line %q", out.String(), want)
		}
	}
}
