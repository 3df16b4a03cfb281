package metrics_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

func TestMeanIsWeighted(t *testing.T) {
	var a metrics.Mean
	if !math.IsNaN(a.Value()) {
		t.Errorf("mean of nothing: got %v, want NaN", a.Value())
	}
	a.Add(2, 64)
	a.Add(5, 32)
	if a.Value() != 3 || a.Weight != 96 {
		t.Errorf("2 with weight 64 and 5 with 32: got %v, weight %v, want 3, 96", a.Value(), a.Weight)
	}
}

func TestAccuracyCountsTheLargestLogit(t *testing.T) {
	nan := float32(math.NaN())
	var a metrics.Accuracy
	if !math.IsNaN(a.Value()) {
		t.Errorf("accuracy of nothing: got %v, want NaN", a.Value())
	}
	a.AddLogits([]float32{
		1, 3, 2, // 1: right
		5, 5, 1, // 0, the first of equals: wrong
		-3, -2, -1, // 2: right
		nan, 0, 1, // wrong
		9, 9, 9, // padding: does not count
	}, []int32{1, 1, 2, 2}, 3)
	if a.Right != 2 || a.Total != 4 {
		t.Errorf("got %d of %d, want 2 of 4", a.Right, a.Total)
	}
	if a.Value() != 0.5 {
		t.Errorf("got %v, want 0.5", a.Value())
	}
}

func TestTableAlignsNumbersRightAndWordsLeft(t *testing.T) {
	table := metrics.Table{Title: "summary", Columns: []string{"worker", "host", "images/s", "time", "wait"}}
	table.Row(0, "größe", 812.43, 61500*time.Millisecond, metrics.Percent(0.0131))
	table.Row(10, "d2", 12345.6, 1234567*time.Nanosecond, metrics.Percent(0.2), "dropped")
	table.Row(11)
	want := strings.Join([]string{
		"summary",
		"worker  host   images/s    time    wait",
		"------  -----  --------  ------  ------",
		"     0  größe     812.4  1m1.5s   1.3 %",
		"    10  d2        12346  1.23ms  20.0 %",
		"    11",
		"",
	}, "\n")
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An empty cell is neither number nor word.
func TestTableAlignsPastEmptyCells(t *testing.T) {
	table := metrics.Table{Columns: []string{"loss", "accuracy"}}
	table.Row(metrics.Fixed(12.5), nil)
	table.Row(metrics.Fixed(1), metrics.Fixed(0.25))
	want := "   loss  accuracy\n-------  --------\n12.5000\n 1.0000    0.2500\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDurationsHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 5: "10ns", 1234: "1.23µs", 12345: "12.3µs", 123456: "123µs", 999999: "1ms",
		4567 * time.Millisecond: "4.57s", 45678 * time.Millisecond: "45.7s", 456 * time.Second: "7m36s", 5*time.Hour + 400*time.Millisecond: "5h0m0s",
	} {
		table := metrics.Table{Columns: []string{"d"}}
		table.Row(d)
		if got := strings.TrimSpace(strings.Split(table.String(), "\n")[2]); got != want {
			t.Errorf("%d ns: got %s, want %s", d, got, want)
		}
	}
}

func ExampleTable() {
	t := metrics.Table{Columns: []string{"worker", "images/s"}}
	t.Row("0 on d1", 812.4)
	t.Row("1 on d2", 798.0)
	fmt.Print(t.String())
	// Output:
	// worker   images/s
	// -------  --------
	// 0 on d1     812.4
	// 1 on d2       798
}
