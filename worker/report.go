package worker

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// WriteReport writes the table of a finished run: for each epoch the loss, the scores, the speed,
// and where this worker's time went; with adaptive training the batch, its gain, the noise scale
// and the goodput at the end of the epoch; with an asynchronous store also how many updates of
// others its gradients missed, on average and at most, and by how many steps it was ahead of the
// slowest worker; and if the servers' guard caught any, how many of this worker's contributions;
// and if examples are damaged, how many all workers left out. If workers came or went, a second
// table has the speed before and after.
func WriteReport(w io.Writer, epochs []EpochInfo) error {
	columns := columnsOf(epochs)
	table := metrics.Table{Columns: columns.titles()}
	var total EpochInfo
	for _, e := range epochs {
		table.Row(columns.cells(fmt.Sprint(e.Epoch), e)...)
		total.addEpoch(e)
	}
	if len(epochs) > 1 {
		table.Row(columns.cells("all", total)...)
	}
	if _, err := table.WriteTo(w); err != nil {
		return err
	}
	return writeSpans(w, epochs)
}

// reportColumns says which columns a report has beside those of every report.
type reportColumns struct {
	// names are those of the metrics of one's own.
	names []string
	// stale is set with an asynchronous store, guarded if the servers' guard caught any,
	// damaged if examples are damaged, and adaptive with adaptive training.
	stale, guarded, damaged, adaptive bool
}

func columnsOf(epochs []EpochInfo) reportColumns {
	return reportColumns{
		names:    metricNames(epochs),
		stale:    len(epochs) > 0 && epochs[0].Staleness != nil,
		guarded:  slices.ContainsFunc(epochs, func(e EpochInfo) bool { return e.Caught > 0 }),
		damaged:  slices.ContainsFunc(epochs, func(e EpochInfo) bool { return e.Bad > 0 }),
		adaptive: len(epochs) > 0 && epochs[0].Adapt != nil,
	}
}

func (c reportColumns) titles() []string {
	titles := append([]string{"epoch", "train loss", "test loss", "test acc"}, c.names...)
	titles = append(titles, "examples/s", "compute", "wait", "data", "save", "train", "test")
	if c.stale {
		titles = append(titles, "missed mean", "missed max", "lead max")
	}
	if c.guarded {
		titles = append(titles, "caught")
	}
	if c.damaged {
		titles = append(titles, "damaged")
	}
	if c.adaptive {
		titles = append(titles, "batch", "scale", "gain", "noise scale", "goodput/s")
	}
	return titles
}

// cells are those of an epoch's row. A cell that is nil stays empty.
func (c reportColumns) cells(name string, e EpochInfo) []any {
	cells := row(name, e, c.names)
	if c.stale {
		var missedMean, missedMax, lead any
		if s := e.Staleness; s != nil && s.Missed.Count > 0 {
			missedMean, missedMax, lead = s.Missed.Mean(), s.Missed.Max, s.Lead.Max
		}
		cells = append(cells, missedMean, missedMax, lead)
	}
	if c.guarded {
		cells = append(cells, e.Caught)
	}
	if c.damaged {
		cells = append(cells, e.Bad)
	}
	if !c.adaptive {
		return cells
	}
	a := e.Adapt
	if a == nil {
		return append(cells, nil, nil, nil, nil, nil)
	}
	// The noise scale may be unknown, or above all bounds.
	var noise any
	if a.NoiseScale <= 1e9 {
		noise = int(a.NoiseScale + 0.5)
	}
	return append(cells, a.Batch, metrics.Fixed(a.Scale), metrics.Fixed(a.Gain), noise, int(a.Goodput+0.5))
}

// addEpoch makes i the total of the epochs up to e. Each pass over the data has the same damaged
// examples.
func (i *EpochInfo) addEpoch(e EpochInfo) {
	i.Caught += e.Caught
	i.Bad = max(i.Bad, e.Bad)
	i.Examples += e.Examples
	i.Train += e.Train
	i.TestTime += e.TestTime
	i.Loss, i.Test = e.Loss, e.Test
	i.Times.Add(e.Times)
	if e.Staleness != nil {
		if i.Staleness == nil {
			i.Staleness = new(Staleness)
		}
		i.Staleness.Merge(e.Staleness)
	}
}

// writeSpans writes the table of the times between changes of the membership, if there was one.
func writeSpans(w io.Writer, epochs []EpochInfo) error {
	table := metrics.Table{Columns: []string{"workers", "from epoch", "step", "steps", "steps/s", "examples/s"}}
	// Spans of several epochs with the same workers are one.
	var spans []Span
	for _, e := range epochs {
		for _, span := range e.Spans {
			if n := len(spans); n > 0 && spans[n-1].Workers == span.Workers {
				spans[n-1].Steps += span.Steps
				spans[n-1].Examples += span.Examples
				spans[n-1].Train += span.Train
				continue
			}
			spans = append(spans, span)
		}
	}
	if len(spans) < 2 {
		return nil
	}
	for _, s := range spans {
		table.Row(s.Workers, s.Epoch, s.First, s.Steps, metrics.Fixed(s.StepsPerSecond()), int(float64(s.Examples)/max(s.Train.Seconds(), 1e-9)+0.5))
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	_, err := table.WriteTo(w)
	return err
}

// row has the cells that every report has. A cell that is nil stays empty.
func row(name string, e EpochInfo, names []string) []any {
	var testLoss, accuracy any
	if e.Test != nil {
		testLoss = metrics.Fixed(e.Test.Loss)
		if !math.IsNaN(e.Test.Accuracy) {
			accuracy = metrics.Fixed(e.Test.Accuracy)
		}
	}
	share := func(d time.Duration) metrics.Percent {
		return metrics.Percent(d.Seconds() / max(e.Train.Seconds(), 1e-9))
	}
	cells := []any{name, metrics.Fixed(e.Loss), testLoss, accuracy}
	for _, name := range names {
		var value any
		if e.Test != nil {
			if v, ok := e.Test.Get(name); ok {
				value = metrics.Fixed(v)
			}
		}
		cells = append(cells, value)
	}
	return append(cells, int(float64(e.Examples)/max(e.Train.Seconds(), 1e-9)+0.5),
		share(e.Times.Compute), share(e.Times.Wait), share(e.Times.Data), share(e.Times.Save), e.Train, e.TestTime)
}

// metricNames are those of the metrics of one's own.
func metricNames(epochs []EpochInfo) (names []string) {
	for _, e := range epochs {
		if e.Test == nil {
			continue
		}
		for _, m := range e.Test.Metrics {
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// Curves are the panels of a picture of the run: this worker's training loss by step with the test
// loss, the test accuracy and, with adaptive training, the global batch by step with the noise
// scale.
func Curves(title string, epochs []EpochInfo) []metrics.Panel {
	var train, test, accuracy metrics.Series
	train.Name, test.Name, accuracy.Name = "train", "test", "test"
	for _, e := range epochs {
		for i, loss := range e.Losses {
			train.X = append(train.X, float64(e.Epoch)+float64(e.First+i+1)/float64(e.First+len(e.Losses)))
			train.Y = append(train.Y, loss)
		}
		if e.Test != nil {
			at := float64(e.Epoch + 1)
			test.X, test.Y = append(test.X, at), append(test.Y, e.Test.Loss)
			if !math.IsNaN(e.Test.Accuracy) {
				accuracy.X, accuracy.Y = append(accuracy.X, at), append(accuracy.Y, e.Test.Accuracy)
			}
		}
	}
	train.Smooth = max(1, len(train.X)/50)
	panels := []metrics.Panel{{Title: title, X: "epoch", Y: "loss", FromZero: true, Series: []metrics.Series{train}}}
	if len(test.X) > 0 {
		panels[0].Series = append(panels[0].Series, test)
	}
	if len(accuracy.X) > 0 {
		// An empty first series gives the accuracy the colour of the test loss.
		panels = append(panels, metrics.Panel{Title: title, X: "epoch", Y: "accuracy", Percent: true, FromZero: true, Series: []metrics.Series{{}, accuracy}})
	}
	return append(panels, batchPanels(title, epochs)...)
}

// batchPanels is the panel of the batch; none without adaptive training.
func batchPanels(title string, epochs []EpochInfo) []metrics.Panel {
	batch, noise := metrics.Series{Name: "global batch"}, metrics.Series{Name: "noise scale"}
	for _, e := range epochs {
		for i, n := range e.Batches {
			batch.X = append(batch.X, float64(e.Epoch)+float64(e.First+i+1)/float64(e.First+len(e.Batches)))
			batch.Y = append(batch.Y, float64(n))
		}
		if a := e.Adapt; a != nil && a.NoiseScale < 1e9 {
			noise.X, noise.Y = append(noise.X, float64(e.Epoch+1)), append(noise.Y, a.NoiseScale)
		}
	}
	if len(batch.X) == 0 {
		return nil
	}
	panel := metrics.Panel{Title: title, X: "epoch", Y: "examples", FromZero: true, Series: []metrics.Series{batch}}
	if len(noise.X) > 0 {
		panel.Series = append(panel.Series, noise)
	}
	return []metrics.Panel{panel}
}
