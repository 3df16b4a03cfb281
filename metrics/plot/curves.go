package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	gonumplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/metrics"
)

// palette is told apart by most people with a weakness for colours too (Okabe
// and Ito 2008).
var palette = [metrics.Colours]color.NRGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {90, 90, 90, 255},
}

// A canvas is a picture that can be drawn on and written.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

// newCanvas makes the picture that a file's ending asks for.
func newCanvas(path string, width, height vg.Length) (canvas, error) {
	switch ending := strings.ToLower(filepath.Ext(path)); ending {
	case ".png":
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))}, nil
	case ".svg":
		return vgsvg.New(width, height), nil
	default:
		return nil, fmt.Errorf("the file ends in %q, want .png or .svg", ending)
	}
}

// Curves draws the panels side by side into a PNG or, if path ends in .svg, an SVG file.
func Curves(path string, panels ...metrics.Panel) error {
	if len(panels) == 0 {
		return fmt.Errorf("plot: curves %s: got no panels", path)
	}
	const width, height = 5.2 * vg.Inch, 3.6 * vg.Inch
	img, err := newCanvas(path, width*vg.Length(len(panels)), height)
	if err != nil {
		return fmt.Errorf("plot: curves %s: %w", path, err)
	}
	canvas := draw.New(img)
	plots := make([]*gonumplot.Plot, len(panels))
	for i, p := range panels {
		drawn, err := newPlot(p)
		if err != nil {
			return fmt.Errorf("plot: curves %s: panel %q: %w", path, p.Title, err)
		}
		plots[i] = drawn
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: vg.Points(18),
		PadTop: vg.Points(10), PadBottom: vg.Points(8), PadLeft: vg.Points(10), PadRight: vg.Points(14)}
	for i, c := range gonumplot.Align([][]*gonumplot.Plot{plots}, tiles, canvas)[0] {
		plots[i].Draw(c)
	}
	err = vfs.WriteFile(vfs.OS{}, path, func(w io.Writer) error {
		_, err := img.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("plot: curves: %w", err)
	}
	return nil
}

// newPlot is the panel as gonum's plot.
func newPlot(panel metrics.Panel) (*gonumplot.Plot, error) {
	p := gonumplot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = panel.Title, panel.X, panel.Y
	setFonts(p)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{232}, color.Gray{232}
	p.Add(grid)
	drawing := panelDrawing{plot: p, within: bounds(panel.Series), whole: true}
	for i, s := range panel.Series {
		if err := drawing.add(s, palette[i%len(palette)]); err != nil {
			return nil, err
		}
	}
	if panel.FirstOnTop {
		slices.Reverse(drawing.layers)
	}
	for _, layer := range drawing.layers {
		p.Add(layer...)
	}
	if drawing.points == 0 {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	}
	if panel.FromZero {
		p.X.Min = min(p.X.Min, 0)
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{whole: drawing.whole}, ticks{percent: panel.Percent}
	widen(&p.X.Min, &p.X.Max, 0)
	widen(&p.Y.Min, &p.Y.Max, 0.05)
	placeLegend(p, drawing.rising)
	return p, nil
}

// setFonts sets the fonts of all texts of a plot.
func setFonts(p *gonumplot.Plot) {
	const face = "Sans"
	set := func(f *font.Font, size vg.Length) { f.Variant, f.Size = face, size }
	set(&p.Title.TextStyle.Font, 13)
	set(&p.X.Label.TextStyle.Font, 10)
	set(&p.Y.Label.TextStyle.Font, 10)
	set(&p.X.Tick.Label.Font, 9)
	set(&p.Y.Tick.Label.Font, 9)
	set(&p.Legend.TextStyle.Font, 9)
	p.Title.Padding, p.X.Label.Padding, p.Y.Label.Padding = 6, 3, 3
}

// placeLegend puts the legend where the curves are not: below those that rise.
func placeLegend(p *gonumplot.Plot, rising float64) {
	p.Legend.Top, p.Legend.Left = rising <= 0, false
	p.Legend.XOffs, p.Legend.YOffs = -6, 6
	if p.Legend.Top {
		p.Legend.YOffs = -6
	}
	p.Legend.ThumbnailWidth, p.Legend.Padding = 16, 2
}

// A panelDrawing draws the series of a panel. Faint ones go into the plot at once, so that they
// stand behind; the layers of the others follow when their order is known.
type panelDrawing struct {
	plot   *gonumplot.Plot
	within limits
	layers [][]gonumplot.Plotter
	// points is how many points there are, whole says that all are at whole X, and rising is by
	// how much the series rise in all.
	points int
	whole  bool
	rising float64
}

// add draws a series in a colour.
func (d *panelDrawing) add(s metrics.Series, shade color.NRGBA) error {
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("series %q: got %d X and %d Y, want equally many", s.Name, len(s.X), len(s.Y))
	}
	xy := finite(s)
	if len(xy) == 0 {
		return nil
	}
	d.points += len(xy)
	d.whole = d.whole && !slices.ContainsFunc(xy, func(at plotter.XY) bool { return at.X != math.Trunc(at.X) })
	d.rising += xy[len(xy)-1].Y - xy[0].Y
	if s.Faint {
		return d.addFaint(s, xy)
	}
	var drawn []gonumplot.Plotter
	if s.Smooth > 1 {
		faint := shade
		faint.A = 70
		line, err := addLine(d.plot, xy, faint, 0.8, nil, "")
		if err != nil {
			return err
		}
		drawn = line
		xy = smooth(xy, s.Smooth)
	}
	var glyph draw.GlyphDrawer
	if len(xy) <= 30 {
		glyph = draw.CircleGlyph{}
	}
	line, err := addLine(d.plot, xy, shade, 1.8, glyph, s.Name)
	if err != nil {
		return err
	}
	ahead, err := d.within.ahead(s, xy, shade, 1.4)
	if err != nil {
		return err
	}
	d.layers = append(d.layers, append(append(ahead, drawn...), line...))
	return nil
}

// addFaint draws a thin grey line.
func (d *panelDrawing) addFaint(s metrics.Series, xy plotter.XYs) error {
	line, err := addLine(d.plot, xy, color.Gray{190}, 0.7, nil, "")
	if err != nil {
		return err
	}
	ahead, err := d.within.ahead(s, xy, color.NRGBA{190, 190, 190, 255}, 0.7)
	if err != nil {
		return err
	}
	d.plot.Add(append(ahead, line...)...)
	return nil
}

// widen adds the share on both sides, and room around a single value.
func widen(low, high *float64, share float64) {
	room := (*high - *low) * share
	if !(*high > *low) {
		room = max(math.Abs(*high)*0.05, 0.05)
	}
	*low, *high = *low-room, *high+room
}

// addLine adds a line to the legend, and returns what is to be drawn.
func addLine(p *gonumplot.Plot, xy plotter.XYs, shade color.Color, width vg.Length, glyph draw.GlyphDrawer, name string) ([]gonumplot.Plotter, error) {
	line, points, err := plotter.NewLinePoints(xy)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = shade, width
	drawn := []gonumplot.Plotter{line}
	thumbs := []gonumplot.Thumbnailer{line}
	if glyph != nil {
		points.Shape, points.Color, points.Radius = glyph, shade, 2.4
		drawn, thumbs = append(drawn, points), append(thumbs, points)
	}
	if name != "" {
		p.Legend.Add(name, thumbs...)
	}
	return drawn, nil
}

// finite returns the points that can be drawn.
func finite(s metrics.Series) plotter.XYs {
	var xy plotter.XYs
	for i, x := range s.X {
		if y := s.Y[i]; !math.IsNaN(x+y) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			xy = append(xy, plotter.XY{X: x, Y: y})
		}
	}
	return xy
}

// smooth returns the mean over the n points around each, fewer at the ends.
func smooth(xy plotter.XYs, n int) plotter.XYs {
	sums := make([]float64, len(xy)+1)
	for i, p := range xy {
		sums[i+1] = sums[i] + p.Y
	}
	out := make(plotter.XYs, len(xy))
	for i, p := range xy {
		from, to := max(0, i-n/2), min(len(xy), i+n/2+1)
		out[i] = plotter.XY{X: p.X, Y: (sums[to] - sums[from]) / float64(to-from)}
	}
	return out
}

// ticks are at multiples of 1, 2 or 5 times a power of ten, four to nine of them; percent writes
// 0.4 as 40 %, and whole has ticks at whole numbers alone, of which there may be fewer.
type ticks struct{ percent, whole bool }

func (t ticks) Ticks(low, high float64) []gonumplot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, k := range []float64{5, 2} {
		if (high-low)/(k*step) >= 4 {
			step *= k
			break
		}
	}
	if t.whole {
		step = max(step, 1)
	}
	var list []gonumplot.Tick
	first, last := math.Ceil(low/step-1e-9), math.Floor(high/step+1e-9)
	for k := first; k <= last && len(list) < 20; k++ {
		value := k*step + 0 // −0 becomes 0
		label := fmt.Sprintf("%.6g", value)
		if t.percent {
			label = fmt.Sprintf("%.6g %%", 100*value)
		}
		list = append(list, gonumplot.Tick{Value: value, Label: label})
	}
	return list
}
