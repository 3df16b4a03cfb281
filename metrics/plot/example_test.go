package plot_test

import (
	"fmt"
	"os"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/metrics/plot"
)

// A picture of curves, as PNG or SVG by the name of the file.
func ExampleCurves() {
	dir, err := os.MkdirTemp("", "curves")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	err = plot.Curves(dir+"/curves.svg", metrics.Panel{Title: "loss", X: "epoch", Y: "loss", Series: []metrics.Series{
		{Name: "train", X: []float64{0, 1, 2}, Y: []float64{2.3, 1.1, 0.7}},
		{Name: "test", X: []float64{0, 1, 2}, Y: []float64{2.2, 1.3, 1.0}},
	}})
	fmt.Println(err)
	// Output: <nil>
}
