package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// events are those of the files in a folder.
func events(t *testing.T, folder string) (all []metrics.Event) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "events.out.tfevents.*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("files of events in %s: got %v and error %v, want some", folder, names, err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		list, err := metrics.ReadEvents(f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all = append(all, list...)
	}
	return all
}

// TensorBoard gets what is reported, by the step after which it is known.
func TestTensorBoardGetsWhatIsReported(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	p, dir := play(t, kv), t.TempDir()
	for _, request := range []struct {
		op   string
		args map[string]any
	}{
		{"tensorboard", map[string]any{"folder": dir}},
		{"sampler", map[string]any{"examples": 3, "batch": 2, "epochs": 1}},
		{"turn", map[string]any{"step": map[string]any{"loss": 2.5, "compute": 0.5, "learning_rate": "inf"}}},
		{"turn", nil},
		{"report", map[string]any{"evaluation": map[string]any{"accuracy": 0.75, "others": map[string]any{"f1": 0.5}}}},
	} {
		if err := p.ask(t.Context(), request.op, request.args, nil); err != nil {
			t.Fatalf("%s: %v", request.op, err)
		}
	}
	p.s.reports.close()
	var got []string
	for _, e := range events(t, filepath.Join(dir, "worker-0")) {
		for _, text := range e.Texts {
			got = append(got, fmt.Sprint(e.Step, " ", text.Text))
		}
		for _, s := range e.Scalars {
			if s.Tag != "time/step" && s.Tag != "time/wait" && (s.Tag != "time/compute" || e.Step == 1) && s.Tag != "time/examples_per_second" {
				got = append(got, fmt.Sprint(e.Step, " ", s.Tag, " ", s.Value))
			}
		}
	}
	want := []string{
		"0 The run begins: worker 0 of 1",
		"1 train/loss 2.5", "1 train/examples 2", "1 train/batch 2", "1 train/epoch 0", "1 train/workers 1", "1 time/compute 0.5", "1 time/data 0", "1 time/save 0",
		"2 train/examples 1", "2 train/batch 1", "2 train/epoch 0", "2 train/workers 1", "2 time/data 0", "2 time/save 0",
		"2 test/accuracy 0.75", "2 test/f1 0.5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if err := p.ask(t.Context(), "tensorboard", map[string]any{"folder": filepath.Join(dir, "worker-0", filepath.Base(firstOf(t, dir)))}, nil); err == nil {
		t.Error("a folder that is a file has no error")
	}
	if err := p.ask(t.Context(), "report", map[string]any{"step": map[string]any{"loss": 1}}, nil); err != nil {
		t.Errorf("a report after that: %v", err)
	}
	if err := p.ask(t.Context(), "tensorboard", nil, nil); !errors.Is(err, errUsage) {
		t.Errorf("no folder: got error %v, want one of class Usage", err)
	}
}

// A worker that joined has a folder of its node, and a change of the workers is told.
func TestTensorBoardTellsOfTheWorkers(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	dir := t.TempDir()
	b, err := openBoard(dir, kv, 5, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.step(&kvstore.StepReport{Epoch: 4}, 6, 2)
	b.step(&kvstore.StepReport{Epoch: 4}, 7, 2)
	b.close()
	var got []string
	for _, e := range events(t, filepath.Join(dir, fmt.Sprint("worker-node-", kv.NodeID()))) {
		for _, text := range e.Texts {
			got = append(got, fmt.Sprint(e.Step, " ", text.Text))
		}
	}
	want := []string{"5 This worker joined the running job: worker 0 of 1", "6 The number of workers changed from 1 to 2 at epoch 4"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// A stuckFile is one of a disk that takes nothing until it is let.
type stuckFile struct {
	let    chan struct{}
	events []string
	fails  error
}

func (f *stuckFile) Add(step int64, _ time.Time, _ ...metrics.Scalar) error {
	<-f.let
	f.events = append(f.events, fmt.Sprint("step ", step))
	return f.fails
}

func (f *stuckFile) AddText(step int64, _ time.Time, _, _ string) error {
	<-f.let
	f.events = append(f.events, fmt.Sprint("text ", step))
	return f.fails
}

func (f *stuckFile) Close() error {
	f.events = append(f.events, "close")
	return nil
}

// A disk that takes nothing holds up no report. What is too much is left out, with one line.
func TestADiskThatHangsHoldsUpNoReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := report1(t)
		var said strings.Builder
		file := &stuckFile{let: make(chan struct{})}
		p.s.reports.replace(newBoard(file, 1, slog.New(slog.NewTextHandler(&said, nil))), 0)
		const more = 20
		for range maxEvents + more {
			if err := p.ask(t.Context(), "report", map[string]any{"step": map[string]any{"loss": 1}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.steps) != maxEvents+more {
			t.Errorf("the job was told of %d steps, want %d", len(r.steps), maxEvents+more)
		}
		close(file.let)
		p.s.reports.close()
		if n := len(file.events); n < maxEvents || n > maxEvents+2 || file.events[0] != "step 1" || file.events[n-1] != "close" {
			t.Errorf("%d events were written, from %s to %s, want %d of steps and the end", n, file.events[0], file.events[n-1], maxEvents)
		}
		if n := strings.Count(said.String(), "level=WARN"); n != 1 {
			t.Errorf("got %d warnings, want one: %s", n, said.String())
		}
	})
}

// An error of writing ends the writing, with one line.
func TestAnErrorOfWritingIsLoggedOnce(t *testing.T) {
	var said strings.Builder
	file := &stuckFile{let: make(chan struct{}), fails: errors.New("disk full")}
	close(file.let)
	b := newBoard(file, 1, slog.New(slog.NewTextHandler(&said, nil)))
	for done := range uint64(5) {
		b.step(&kvstore.StepReport{}, done, 1)
	}
	b.close()
	if fmt.Sprint(file.events) != "[step 0 close]" || strings.Count(said.String(), "disk full") != 1 {
		t.Errorf("got events %v and the log %q, want the first step and one line", file.events, said.String())
	}
}

// firstOf is the first file of events.
func firstOf(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "worker-0", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("got files %v and error %v, want one", names, err)
	}
	return names[0]
}
