package trialjob

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/tune/internal/nodes"
)

// report reports the metrics of a line, unless the program reports by itself, and ends the
// processes if the attempt is to return: they do not hear the answer.
func (t *trial) report(step int, metrics map[string]float64) {
	if t.joined() {
		return
	}
	if err := t.saveState(step); err != nil {
		t.settings.Logger.Warn("tune: a checkpoint of a command could not be saved", "trial", t.Trial, "step", step, "error", err)
	}
	a, err := t.Decide(step, metrics)
	switch {
	case err != nil:
		t.settings.Logger.Warn("tune: a line with metrics was refused", "trial", t.Trial, "error", err)
	case a.Action != goOn:
		t.stop()
	}
}

// show copies a worker's line to Settings.Show, with its node before it; of an elastic trial, with
// its rank.
func (t *trial) show(l control.Line) {
	node := nodes.LocalName
	if t.elastic() {
		node = fmt.Sprint(l.Rank)
	} else if i := l.Rank / t.Resources.Slots; i < len(t.Grant.Parts) {
		node = t.Grant.Parts[i].Node
	}
	t.runner.showing.Lock()
	defer t.runner.showing.Unlock()
	fmt.Fprintf(t.settings.Show, "[ worker %s of trial %d ] : %s\n", node, t.Trial, l.Text)
}

// outputConfig says what becomes of what the processes print.
func (t *trial) outputConfig() outputConfig {
	c := outputConfig{folder: t.folder, metric: t.Metric, alone: t.settings.NoServers, report: t.report}
	if t.settings.Show != nil {
		c.show = t.show
	}
	return c
}
