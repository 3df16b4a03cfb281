package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// writeTable writes the medians of the turns at one rate, in Markdown.
func writeTable(w io.Writer, rate, sums string, s *settings, turns []turn) error {
	median := func(way int, of func(t turn) float64) float64 {
		var all []float64
		for _, t := range turns {
			if t.Way == way {
				all = append(all, of(t)/float64(s.Steps))
			}
		}
		slices.Sort(all)
		return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	took := func(t turn) float64 { return float64(t.Took) }
	_, err := fmt.Fprintf(w, "\n%s each way, %d workers on %d hosts, sums within hosts %s, %d turns of %d steps, batch %d\n\n"+
		"| compression | MB up a step | MB down a step | time of a step | ÷ none's |\n| --- | --- | --- | --- | --- |\n", rate, s.Workers, s.Hosts, sums, s.Count, s.Steps, s.Batch)
	if err != nil {
		return err
	}
	first := median(0, took)
	for way, c := range s.Ways {
		t := median(way, took)
		if _, err := fmt.Fprintf(w, "| %v | %.2f | %.2f | %v | %.2f |\n", c, median(way, func(t turn) float64 { return float64(t.Up) / 1e6 }),
			median(way, func(t turn) float64 { return float64(t.Down) / 1e6 }), time.Duration(t).Round(time.Millisecond), t/first); err != nil {
			return err
		}
	}
	return nil
}
