package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The times to an accuracy are read from the output of runs that were made before, and a picture is drawn.
func TestTimesAreReadFromOutput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := func(rank, text string) string {
		return `{"role":"worker","rank":` + rank + `,"stream":"stdout","text":"` + text + `"}` + "\n"
	}
	write("fixed-1.log", line("1", "Epoch 0: Test_acc 0.9, Test_loss 1")+
		line("0", "Epoch 0: step 7: Test_acc 0.300000, Test_loss 1 after 5.0 s (9 examples in 1 s)")+
		line("0", "Epoch 0: Train_loss 1.5, 100 examples in 10.0 s (10 examples/s)")+line("0", "Epoch 0: Test_acc 0.500000, Test_loss 1 (9 examples in 1 s)")+
		line("0", "Epoch 1: step 7: Test_acc 0.580000, Test_loss 1 after 8.0 s (9 examples in 1 s)")+
		line("0", "Epoch 1: Train_loss 1.5, 100 examples in 20.0 s (10 examples/s)")+line("0", "Epoch 1: Test_acc 0.700000, Test_loss 1 (9 examples in 1 s)")+"not JSON\n")
	write("adapt-1.log", line("0", "Epoch 0: step 7: Test_acc 0.500000, Test_loss 1 after 4.0 s (9 examples in 1 s)")+line("0", "Epoch 0: Train_loss 1.5, 100 examples in 8.0 s (10 examples/s)")+line("0", "Epoch 0: Test_acc 0.800000, Test_loss 1 (9 examples in 1 s)"))
	var out strings.Builder
	picture := filepath.Join(dir, "p", "adapt.png")
	if err := run(&out, []string{"--logs", dir, "--seeds", "1", "--until", "0.6", "--picture", picture}); err != nil {
		t.Fatal(err)
	}
	if want := "1     20.0 s  5.3 s     3.75   30.0 s                         8.0 s     3.75"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant a line %q", out.String(), want)
	}
	if info, err := os.Stat(picture); err != nil || info.Size() == 0 {
		t.Errorf("the picture: %v", err)
	}
	if v := (curve{seconds: []float64{1}, accuracy: []float64{0.1}}).time(0.5); !math.IsNaN(v) {
		t.Errorf("an accuracy that was not reached: got %v s, want NaN", v)
	}
}

// The time to an accuracy ends at the evaluation that has exactly this accuracy, also at the first one; no run is faster than its first evaluation.
func TestTimeToAccuracy(t *testing.T) {
	v := curve{seconds: []float64{4, 8, 12, 16}, accuracy: []float64{0.25, 0.5, 0.4, 0.75}}
	never := math.NaN()
	for _, c := range []struct{ accuracy, time, evaluated float64 }{
		{0.125, 4, 4}, {0.25, 4, 4}, {0.375, 6, 8}, {0.5, 8, 8}, {0.75, 16, 16}, {0.76, never, never},
	} {
		same := func(got, want float64) bool { return got == want || math.IsNaN(got) && math.IsNaN(want) }
		if got, first := v.time(c.accuracy), v.evaluated(c.accuracy); !same(got, c.time) || !same(first, c.evaluated) {
			t.Errorf("to %v: got %v s, and %v s by the first evaluation, want %v and %v", c.accuracy, got, first, c.time, c.evaluated)
		}
	}
}

// Only what worker 0 prints on its standard output counts.
func TestLinesOfOthersDoNotCount(t *testing.T) {
	for line, want := range map[string]int{
		`{"role":"worker","rank":0,"stream":"stdout","text":"Epoch 0: Test_acc 0.5, Test_loss 1"}`:                                         1,
		`{"role":"worker","rank":1,"stream":"stdout","text":"Epoch 0: Test_acc 0.5, Test_loss 1"}`:                                         0,
		`{"role":"server","rank":0,"stream":"stdout","text":"Epoch 0: Test_acc 0.5, Test_loss 1"}`:                                         0,
		`{"role":"worker","rank":0,"stream":"stderr","text":"Epoch 0: Test_acc 0.5, Test_loss 1"}`:                                         0,
		`{"role":"worker","rank":0,"stream":"stdout","text":"again: Epoch 0: Test_acc 0.5, Test_loss 1"}`:                                  0,
		`{"role":"worker","rank":0,"stream":"stdout","text":"Epoch 0: step 3/8, loss 2.5, 90 examples/s"}`:                                 0,
		`{"role":"worker","rank":0,"stream":"stdout","text":"Epoch 0: step 3: Test_acc 0.5, Test_loss 1"}`:                                 0, // without the time
		`{"role":"worker","rank":0,"stream":"stdout","text":"Epoch 0: step 3: Test_acc 0.5, Test_loss 1 after 2.5 s (9 examples in 1 s)"}`: 1,
	} {
		var v curve
		if v.add([]byte(line)); len(v.accuracy) != want {
			t.Errorf("%s: got %d accuracies, want %d", line, len(v.accuracy), want)
		}
	}
}

// What is missing or out of range is named.
func TestBadArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--seeds 0", "--seeds is 0"},
		{"--eval-steps -1", "--eval-steps is -1"},
		{"--until 65", "--until is 65"},
		{"--seeds 1", "--data is missing"},
	} {
		if err := run(new(strings.Builder), strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.want)
		}
	}
}
