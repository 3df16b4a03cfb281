package top

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// detailText is the page of one worker.
func (p *page) detailText(room int) (lines []string) {
	w := &p.snapshot.Workers[p.chosen()]
	lines = append(lines,
		p.styles.title.Render(fmt.Sprintf("worker %s on %s", rank(w.Rank), w.Host))+fmt.Sprintf("  process %d · node %d · %s", w.PID, w.Node, w.stateText()),
		"",
		detail("step", fmt.Sprintf("%s of this run, epoch %s", whole(w.Step), whole(w.Epoch))),
		detail("throughput", fmt.Sprintf("%s examples/s, %s steps/s", amount(w.Examples), amount(w.Steps))),
		detail("loss", loss(w.Loss)),
	)
	lines = append(lines, p.stepParts(w)...)
	lines = append(lines, detail("came last", fmt.Sprintf("in %s of the last 30 s' rounds, %s after the last but one", percent(w.Last), span(w.Gap))))
	lines = append(lines, p.measured(w)...)
	if text := p.scoreText(w.Node); text != "" {
		lines = append(lines, detail("test scores", text))
	}
	lines = append(lines, p.gpuLines(w.Node)...)
	width := max(10, p.width-detailWidth)
	for _, l := range []struct {
		name   string
		values []float64
	}{{"step times", w.stepTimes}, {"examples/s", w.throughput}} {
		if len(lines) < room {
			lines = append(lines, detail(l.name, p.styles.line.Render(sparkline(l.values, sparkTop(width, l.values), min(width, max(10, len(l.values)))))))
		}
	}
	return lines
}

// detailWidth is the width of the names of details.
const detailWidth = 16

// detail is a line with a name and a value.
func detail(name, text string) string { return pad(name, detailWidth, false) + text }

// stepParts are the time of a step, and a bar for each part of it.
func (p *page) stepParts(w *Worker) []string {
	cells := max(10, min(60, p.width-40))
	part := func(name, cell string, n control.Number) string {
		share := n / w.StepTime
		bar := ""
		if k := int(math.Round(float64(share) * float64(cells))); k > 0 && k <= cells {
			bar = strings.Repeat(cell, k)
		}
		return detail("  "+name, pad(span(n), 8, true)+pad(percent(share), 6, true)+"  "+p.paint(bar, false, false, false))
	}
	return []string{
		detail("step time", pad(span(w.StepTime), 8, true)),
		part("compute", computeCell, w.Compute),
		part("wait", waitCell, w.Wait),
		part("data", dataCell, w.Data),
		part("other", otherCell, w.StepTime-control.Number(sum(w.Compute, w.Wait, w.Data))),
	}
}

// measured are the metrics that the worker has sent.
func (p *page) measured(w *Worker) (lines []string) {
	x := p.history.tracks[w.Node]
	for _, m := range []struct {
		name string
		text func() string
		of   telemetry.Metric
	}{
		{"learning rate", func() string { return value(x.value(telemetry.LearningRate)) }, telemetry.LearningRate},
		{"gradient norm", func() string { return value(x.value(telemetry.GradientNorm)) }, telemetry.GradientNorm},
		{"global batch", func() string { return whole(x.value(telemetry.GlobalBatch)) }, telemetry.GlobalBatch},
		{"staleness", func() string {
			return value(x.value(telemetry.StalenessMean)) + " on average, at most " + value(x.value(telemetry.StalenessMax))
		}, telemetry.StalenessMean},
		{"test", func() string {
			return "loss " + value(x.value(telemetry.TestLoss)) + ", accuracy " + value(x.value(telemetry.TestAccuracy))
		}, telemetry.TestLoss},
		{"network", func() string { return size(w.Sent) + "/s sent, " + size(w.Received) + "/s received" }, telemetry.SentBytes},
		{"memory", func() string { return size(x.value(telemetry.ResidentBytes)) }, telemetry.ResidentBytes},
		{"CPU", func() string {
			r, ok := x.window(telemetry.CPUSeconds)
			if !ok {
				return unknown
			}
			return amount(control.Number(r.perSecond(telemetry.CPUSeconds))) + " cores"
		}, telemetry.CPUSeconds},
		{"heartbeat", func() string { return span(x.value(telemetry.HeartbeatTrip)) + " round trip" }, telemetry.HeartbeatTrip},
	} {
		if _, ok := x.newest[m.of]; ok {
			lines = append(lines, detail(m.name, m.text()))
		}
	}
	return lines
}

// scoreText has the metrics of one's own of a worker's newest evaluation.
func (p *page) scoreText(node uint64) string {
	var list []string
	for i, name := range p.history.last.Scores {
		if v := p.indexed(node, telemetry.TestScore, i); !math.IsNaN(float64(v)) {
			list = append(list, name+" "+value(v))
		}
	}
	return strings.Join(list, ", ")
}

// gpuLines are the GPUs of a worker.
func (p *page) gpuLines(node uint64) (lines []string) {
	for gpu := range telemetry.MaxGPUs {
		of := func(m telemetry.Metric) control.Number { return p.indexed(node, m, gpu) }
		used := of(telemetry.GPUMemoryUsed)
		if math.IsNaN(float64(used)) {
			continue
		}
		lines = append(lines, detail(fmt.Sprintf("GPU %d", gpu), fmt.Sprintf("load %s, memory %s of %s, %s °C, %s W", percent(of(telemetry.GPULoad)), size(used),
			size(of(telemetry.GPUMemoryTotal)), whole(of(telemetry.GPUTemperature)), whole(of(telemetry.GPUPower)))))
	}
	return lines
}

// indexed is the newest value of one index of a node's metric; NaN: there is none.
func (p *page) indexed(node uint64, m telemetry.Metric, index int) control.Number {
	t := p.history.last
	n := slices.IndexFunc(t.Nodes, func(n control.NodeTelemetry) bool { return n.Node == node })
	c := slices.Index(t.Columns, control.Value{Metric: m.String(), Index: index})
	if n < 0 || c < 0 {
		return control.Number(math.NaN())
	}
	return t.Nodes[n].Values[c]
}
