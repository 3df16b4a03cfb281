package worker

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/metrics"
)

// A Progress shows a run to a person: a bar for each epoch on a terminal, plain lines elsewhere,
// and after each epoch lines such as
//
//	Epoch 0: Train_loss 1.842315, 25000 examples in 61.2 s (408 examples/s)
//	Epoch 0: Test_acc 0.467400, Test_loss 1.493120 (10000 examples in 6.1 s)
//	Epoch 0: batch 256 (64 × 2 runs a worker), scale 4.00, gain 2.91, noise scale 512, goodput 297 examples/s
//
// The last one is of adaptive training.
type Progress struct {
	out io.Writer
	// columns are those of the terminal; 0: there is none.
	columns func() int
	// only says that rank 0 alone shows something.
	only bool
	run  Run
	bar  *progressbar.ProgressBar

	// begin is when the epoch began, within says that it has had a step, and examples counts
	// its examples.
	begin    time.Time
	within   bool
	examples int

	// told says that the run has had a line of a step. lineAt is when the last one was printed,
	// or what its rate counts from, and counted are the examples of the epoch up to then.
	told    bool
	lineAt  time.Time
	counted int
	// waits is the share of the steps since then that went into waiting for data.
	waits shareOf
	// shown is how many tenths of the epoch plain lines have told of.
	shown int
}

// NewProgress shows on out; with a bar if it is a terminal.
func NewProgress(out *os.File) *Progress {
	return &Progress{out: out, columns: func() int {
		columns, _, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return 0
		}
		return columns
	}}
}

// firstLine is how long a run has no line of a step at most, where an epoch's tenths are long.
const firstLine = 3 * time.Second

// OnlyRankZero makes p show nothing while this worker has another rank than 0, and returns p: in a
// job the lines come once, not once a worker.
func (p *Progress) OnlyRankZero() *Progress {
	p.only = true
	return p
}

// silent reports whether another worker shows the run.
func (p *Progress) silent() bool { return p.only && p.run.Rank != 0 }

// Begin says what is about to run.
func (p *Progress) Begin(run Run) {
	if p.run, p.begin = run, time.Now(); p.silent() {
		return
	}
	fmt.Fprintf(p.out, "Worker %d of %d: %s of %s\n", run.Rank, run.Workers, plural.Of(run.Epochs, "epoch"), plural.Of(run.StepsPerEpoch, "step"))
	if a := run.Adapt; a != nil {
		fmt.Fprintf(p.out, "Adaptive batch: %d (%v), initially %d\n", a.Batch, batch{a.LocalBatch, a.Accumulation}, a.InitialBatch)
	}
	if run.Joined {
		fmt.Fprintf(p.out, "Joined the running job: epoch %d, step %d\n", run.FirstEpoch, run.FirstStep)
	}
	switch {
	case run.ResumedFrom != "" && run.FirstEpoch >= run.Epochs:
		fmt.Fprintf(p.out, "Resumed from %s: nothing is left to train after %s; with more epochs the run goes on from there\n", run.ResumedFrom, plural.Of(run.Epochs, "epoch"))
	case run.ResumedFrom != "":
		fmt.Fprintf(p.out, "Resumed from %s: epoch %d, step %d\n", run.ResumedFrom, run.FirstEpoch, run.FirstStep)
	}
}

// Step moves the bar or prints a line: every tenth of an epoch, and once in the first seconds of
// the run. A bar that cannot be drawn is no reason to stop.
func (p *Progress) Step(s StepInfo) {
	// The number of steps changes when workers come or go.
	if s.Steps > 0 && s.Steps != p.run.StepsPerEpoch {
		p.run.StepsPerEpoch = s.Steps
		if p.bar != nil {
			p.bar.ChangeMax(s.Steps)
		}
	}
	if !p.within {
		p.within, p.examples, p.shown = true, 0, s.Step*10/p.run.StepsPerEpoch
		p.lineAt, p.counted, p.waits = p.begin, 0, shareOf{}
		p.bar = p.newBar()
	}
	p.waits.part, p.waits.whole = p.waits.part+s.Times.Data, p.waits.whole+s.Took
	p.examples += s.Examples
	rate := float64(p.examples) / max(time.Since(p.begin).Seconds(), 1e-9)
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("Epoch %d  loss %.4f  %5.0f/s%s%s", s.Epoch, s.Loss, rate, p.waitsForData(" wait %v"), p.batchOf(s)))
		_ = p.bar.Set(s.Step + 1)
		return
	}
	tenth := (s.Step + 1) * 10 / p.run.StepsPerEpoch
	first := !p.told && time.Since(p.begin) >= firstLine
	if first || tenth > p.shown && tenth < 10 {
		// The rate is that since the line before, so that workers which began at different
		// times show the same for the same steps.
		rate = float64(p.examples-p.counted) / max(time.Since(p.lineAt).Seconds(), 1e-9)
		p.shown, p.told, p.lineAt, p.counted = max(p.shown, tenth), true, time.Now(), p.examples
		if p.silent() {
			return
		}
		fmt.Fprintf(p.out, "Epoch %d: step %d/%d, loss %.4f, %.0f examples/s%s%s\n", s.Epoch, s.Step+1, p.run.StepsPerEpoch, s.Loss, rate, p.waitsForData(", %v waiting for data"), p.batchOf(s))
		p.waits = shareOf{}
	}
}

// A shareOf is a part of some time.
type shareOf struct{ part, whole time.Duration }

func (s shareOf) percent() metrics.Percent {
	return metrics.Percent(s.part.Seconds() / max(s.whole.Seconds(), 1e-9))
}

// waitsForData tells the share of waits where examples are read from files or over a network; else
// it is empty.
func (p *Progress) waitsForData(format string) string {
	if p.run.Data.Fingerprint == "" {
		return ""
	}
	return fmt.Sprintf(format, p.waits.percent())
}

// batchOf tells the global batch of a step where it may change.
func (p *Progress) batchOf(s StepInfo) string {
	if p.run.Adapt == nil {
		return ""
	}
	return fmt.Sprintf(", batch %d", s.Batch)
}

// besidesBar is the room that a line of text and numbers takes: a line that wraps leaves its first
// half behind when it is drawn again.
const besidesBar = 70

// newBar returns the bar of an epoch, or nil where there is no terminal with room for one.
func (p *Progress) newBar() *progressbar.ProgressBar {
	width := min(p.columns()-besidesBar, 30)
	if width < 4 || p.silent() {
		return nil
	}
	return progressbar.NewOptions(p.run.StepsPerEpoch, progressbar.OptionSetWriter(p.out), progressbar.OptionSetWidth(width),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionUseANSICodes(true), progressbar.OptionThrottle(100*time.Millisecond))
}

// Membership says that workers came or went.
func (p *Progress) Membership(m MembershipInfo) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.run.Rank, p.run.Workers = m.Rank, m.Workers
	// The wait for the change is none of the steps' time.
	p.lineAt, p.counted = time.Now(), p.examples
	if p.silent() {
		p.clear()
		return
	}
	before := ""
	if m.Span.Steps > 0 {
		before = fmt.Sprintf(" (%.1f steps/s before)", m.Span.StepsPerSecond())
	}
	fmt.Fprintf(p.out, "Epoch %d: workers changed from %d to %d at step %d%s; this is worker %d\n", m.Epoch, m.Before, m.Workers, m.Step, before, m.Rank)
}

// Evaluated prints the scores within an epoch.
func (p *Progress) Evaluated(epoch int, e Evaluation) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.begin, p.lineAt = p.begin.Add(e.Time), p.lineAt.Add(e.Time)
	if p.silent() {
		return
	}
	fmt.Fprintf(p.out, "Epoch %d: step %d: %sTest_loss %.6f after %.1f s (%d examples in %.1f s)\n",
		epoch, e.Step, accuracyText(&e.Scores), e.Scores.Loss, e.Train.Seconds(), e.Scores.Examples, e.Time.Seconds())
	p.metrics(fmt.Sprintf("Epoch %d: step %d", epoch, e.Step), e.Scores.Metrics)
}

// accuracyText begins the line of an evaluation; empty: its examples have no labels.
func accuracyText(s *Scores) string {
	if math.IsNaN(s.Accuracy) {
		return ""
	}
	return fmt.Sprintf("Test_acc %.6f, ", s.Accuracy)
}

// Epoch prints what the epoch brought. Programs read these lines: their form stays, also with one
// example.
func (p *Progress) Epoch(e EpochInfo) {
	p.clear()
	defer func() { p.within, p.begin = false, time.Now() }()
	if p.silent() {
		return
	}
	fmt.Fprintf(p.out, "Epoch %d: Train_loss %.6f, %d examples in %.1f s (%.0f examples/s)\n", e.Epoch, e.Loss, e.Examples, e.Train.Seconds(), float64(e.Examples)/max(e.Train.Seconds(), 1e-9))
	if p.run.Data.Fingerprint != "" {
		fmt.Fprintf(p.out, "Epoch %d: %v of the time waiting for data\n", e.Epoch, shareOf{e.Times.Data, e.Train}.percent())
	}
	if e.Bad > 0 {
		fmt.Fprintf(p.out, "Epoch %d: %s left out on all workers\n", e.Epoch, plural.Of(e.Bad, "damaged example"))
	}
	if e.Test != nil {
		fmt.Fprintf(p.out, "Epoch %d: %sTest_loss %.6f (%d examples in %.1f s)\n", e.Epoch, accuracyText(e.Test), e.Test.Loss, e.Test.Examples, e.TestTime.Seconds())
		p.metrics(fmt.Sprintf("Epoch %d", e.Epoch), e.Test.Metrics)
		if e.Test.Bad > 0 {
			fmt.Fprintf(p.out, "Epoch %d: %s left out of the evaluation\n", e.Epoch, plural.Of(e.Test.Bad, "damaged example"))
		}
	}
	if a := e.Adapt; a != nil {
		fmt.Fprintf(p.out, "Epoch %d: batch %d (%v), scale %.2f, gain %.2f, noise scale %s, goodput %.0f examples/s\n",
			e.Epoch, a.Batch, batch{a.LocalBatch, a.Accumulation}, a.Scale, a.Gain, noiseScale(a.NoiseScale), a.Goodput)
	}
	for _, span := range e.Spans {
		with := plural.Of(span.Workers, "worker")
		if span.Batch > 0 {
			with += fmt.Sprintf(" and batch %d", span.Batch)
		}
		if len(e.Spans) > 1 {
			fmt.Fprintf(p.out, "Epoch %d: steps %d to %d with %s: %.1f steps/s\n", e.Epoch, span.First, span.First+span.Steps-1, with, span.StepsPerSecond())
		}
	}
}

// metrics prints those of one's own, if there are any.
func (p *Progress) metrics(at string, list []metrics.Measured) {
	if len(list) == 0 {
		return
	}
	text := make([]string, len(list))
	for i, m := range list {
		text[i] = fmt.Sprintf("%s %.6f", m.Name, m.Value)
	}
	fmt.Fprintf(p.out, "%s: %s\n", at, strings.Join(text, ", "))
}

// noiseScale is in whole examples.
func noiseScale(phi float64) string {
	switch {
	case math.IsNaN(phi):
		return "not measured"
	case phi > 1e9:
		return "above 1e9"
	}
	return fmt.Sprintf("%.0f", phi)
}

// End takes a bar away that a run cut off has left, so that what is said of it has a line of its
// own.
func (p *Progress) End() { p.clear() }

func (p *Progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
