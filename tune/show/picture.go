package show

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/tune"
)

// A picture is a chart of lines and points in a page. Coordinates are those of the page, x to the
// right and y down.
type picture struct {
	Title, X, Y   string
	Width, Height float64
	// Left, Bottom, Right and Top are those of the frame around the data.
	Left, Bottom float64
	Right, Top   float64
	XTicks       []tick
	YTicks       []tick
	Lines        []line
	Points       []dot
}

// A line is a curve with all that belongs to it. Paths are SVG's.
type line struct {
	Path, Colour, Name string
	Faint              bool
	// Trial is the number of the one that it is of, if there is one.
	Trial string
	// Cross marks the end of a trial that was stopped.
	Cross string
	// Ahead leads to the predicted end, in the middle of Band. They are always drawn if the
	// trial runs, else when the pointer is at it, or it is chosen.
	Ahead, Band string
	Running     bool
}

// A dot is a point with the text that the pointer shows at it.
type dot struct {
	X, Y         float64
	Colour, Name string
}

// frameWidth and frameHeight are the size of a picture on the page.
const frameWidth, frameHeight = 560.0, 320.0

// newPicture is a picture without scales, whose frame leaves room for the ticks and the title.
func newPicture(title, x, y string) picture {
	return picture{Title: title, X: x, Y: y, Width: frameWidth, Height: frameHeight,
		Left: 62, Right: frameWidth - 14, Top: 30, Bottom: frameHeight - 44}
}

// frame gives the picture its scales and ticks.
func (p *picture) frame(lowX, highX, lowY, highY float64, logX bool) (x, y scale) {
	// The best and the worst value must not lie on the frame.
	room := (highY - lowY) * 0.04
	x = newScale(lowX, highX, p.Left+6, p.Right-6, logX)
	y = newScale(lowY-room, highY+room, p.Bottom, p.Top, false)
	p.XTicks, p.YTicks = x.ticks(), y.ticks()
	return x, y
}

// path leads through the points. It begins anew behind one that is not finite, so that a diverged
// trial has a gap and not a line to the edge.
func path(x, y scale, xs, ys []float64) string {
	var b strings.Builder
	move := true
	for i := range xs {
		if !isFinite(xs[i]) || !isFinite(ys[i]) {
			move = true
			continue
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[move], x.at(xs[i]), y.at(ys[i]))
		move = false
	}
	return b.String()
}

// curvePicture has the curve of each trial; the colour says how good it is, the first being the
// best.
func curvePicture(v tune.View, ranked []*tune.Trial) picture {
	p := newPicture("Trials", v.Fidelity().StepName(), v.Metric())
	// Trials that were not tried at the highest fidelity come last.
	if v.Fidelity() != nil {
		ranked = slices.Clone(ranked)
		for t := range v.Trials() {
			if len(t.Reports) > 0 && !slices.Contains(ranked, t) {
				ranked = append(ranked, t)
			}
		}
	}
	var xs, ys [][]float64
	var ends, expected []float64
	for _, t := range ranked {
		xs, ys = append(xs, steps(t)), append(ys, values(t))
		if f := t.Forecast(); f != nil {
			ends = append(ends, float64(f.Step))
			if t.State == tune.Running {
				expected = append(expected, f.Mean, f.Low, f.High)
			}
		}
	}
	lowX, highX := span(append(slices.Clone(xs), ends)...)
	lowY, highY := span(ys...)
	// A predicted band may be very wide: it must not squeeze the curves into a line.
	if room := 0.4 * (highY - lowY); len(expected) > 0 {
		low, high := span(expected)
		lowY, highY = min(lowY, max(low, lowY-room)), max(highY, min(high, highY+room))
	}
	x, y := p.frame(lowX, highX, lowY, highY, false)
	p.XTicks = x.wholeTicks()
	// The best are drawn last, so that they are on top.
	for i := len(ranked) - 1; i >= 0; i-- {
		t := ranked[i]
		name := fmt.Sprintf("%s: %s, %s%s", t.Name(), valueText(v.Result(t)), paramText(t.Params), outlook(t))
		colour := shade(place(i, len(ranked)))
		l := line{Path: path(x, y, xs[i], ys[i]), Colour: colour, Name: name, Faint: i >= maxNamed, Trial: fmt.Sprint(t.Number), Running: t.State == tune.Running}
		p.extend(&l, t, x, y)
		p.Lines = append(p.Lines, l)
		if n := len(xs[i]); n == 1 && isFinite(ys[i][0]) {
			p.Points = append(p.Points, dot{x.at(xs[i][0]), y.at(ys[i][0]), colour, name})
		}
	}
	return p
}

// outlook says why a trial was stopped, or how it is expected to end.
func outlook(t *tune.Trial) string {
	last, ok := t.LastStep()
	switch f := t.Forecast(); {
	case t.State == tune.Pruned && ok && t.Rule != "":
		return fmt.Sprintf("\nstopped at step %d by %s", last, t.Reason())
	case f != nil:
		return "\n" + f.String()
	}
	return ""
}

// extend marks the end of a stopped trial, and leads the line of one whose end is predicted there.
func (p *picture) extend(l *line, t *tune.Trial, x, y scale) {
	last, ok := t.Last()
	if !ok || !isFinite(last.Value) {
		return
	}
	fromX, fromY := x.at(float64(last.Step)), y.at(last.Value)
	if t.State == tune.Pruned {
		const r = 3.5
		l.Cross = fmt.Sprintf("M%.1f %.1fl%g %gM%.1f %.1fl%g %g", fromX-r, fromY-r, 2*r, 2*r, fromX-r, fromY+r, 2*r, -2*r)
	}
	f := t.Forecast()
	if f == nil || !isFinite(f.Mean) || math.IsNaN(f.Low+f.High) {
		return
	}
	// The band may be far wider than the frame, which it must not leave.
	within := func(value float64) float64 { return min(max(y.at(value), p.Top), p.Bottom) }
	to := x.at(float64(f.Step))
	l.Ahead = fmt.Sprintf("M%.1f %.1fL%.1f %.1f", fromX, fromY, to, within(f.Mean))
	l.Band = fmt.Sprintf("M%.1f %.1fL%.1f %.1fL%.1f %.1fZ", fromX, fromY, to, within(f.Low), to, within(f.High))
}

// searchPicture is the best value over the study's time.
func searchPicture(v tune.View) picture {
	best := progressPanel(v)
	p := newPicture("Search", best.X, best.Y)
	s := best.Series[0]
	lowX, highX := span(s.X)
	lowY, highY := span(s.Y)
	x, y := p.frame(min(0, lowX), highX, lowY, highY, false)
	p.Lines = append(p.Lines, line{Path: path(x, y, s.X, s.Y), Colour: shade(0), Name: best.Y})
	return p
}

// slicePicture is an objective over one parameter.
func slicePicture(v tune.View, ranked []*tune.Trial, name string, objective int) (picture, bool) {
	a, ok := newAxis(v.Space(), ranked, name)
	if !ok {
		return picture{}, false
	}
	p := newPicture("", name, v.Objectives()[objective].Metric)
	var ys []float64
	for _, t := range ranked {
		ys = append(ys, v.Values(t)[objective])
	}
	low, high := span(ys)
	_, y := p.frame(0, 1, low, high, false)
	p.XTicks = nil
	for _, k := range a.ticks {
		p.XTicks = append(p.XTicks, tick{At: p.Left + 10 + k.At*(p.Right-p.Left-20), Text: k.Text})
	}
	for i := len(ranked) - 1; i >= 0; i-- {
		t := ranked[i]
		value, ok := t.Params.Get(name)
		if !ok {
			continue
		}
		p.Points = append(p.Points, dot{p.Left + 10 + a.at(value)*(p.Right-p.Left-20), y.at(ys[i]), shade(place(i, len(ranked))),
			fmt.Sprintf("%s: %s at %s = %s", t.Name(), valueText(ys[i]), name, valueText(value))})
	}
	return p, len(p.Points) > 0
}
