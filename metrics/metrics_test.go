package metrics_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/metrics"
)

func TestMeanIsWeightedAndMerges(t *testing.T) {
	var a, b metrics.Mean
	if !math.IsNaN(a.Value()) {
		t.Errorf("mean of nothing: got %v, want NaN", a.Value())
	}
	a.Add(2, 64)
	b.Add(5, 32)
	a.Merge(b)
	if a.Value() != 3 || a.Weight != 96 {
		t.Errorf("2 with weight 64 and 5 with 32: got %v, weight %v, want 3, 96", a.Value(), a.Weight)
	}
	a.Reset()
	if !math.IsNaN(a.Value()) {
		t.Errorf("after Reset: got %v, want NaN", a.Value())
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
	var b metrics.Accuracy
	b.Add(4, 4)
	a.Merge(b)
	if a.Value() != 0.75 {
		t.Errorf("merged with 4 of 4: got %v, want 0.75", a.Value())
	}
	a.Reset()
	if a.Total != 0 {
		t.Errorf("after Reset: got %+v", a)
	}
}

func TestThroughputIsExamplesOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := metrics.NewThroughput()
		if r.Rate() != 0 || r.Recent() != 0 {
			t.Errorf("at the start: got %v and %v, want 0", r.Rate(), r.Recent())
		}
		for range 60 { // 100 a second
			time.Sleep(time.Second)
			r.Add(100)
		}
		for range 20 { // then 10 a second
			time.Sleep(time.Second)
			r.Add(10)
		}
		if want := 6200.0 / 80; math.Abs(r.Rate()-want) > 1e-9 || r.Total() != 6200 {
			t.Errorf("rate: got %v of %d, want %v of 6200", r.Rate(), r.Total(), want)
		}
		if math.Abs(r.Recent()-10) > 1e-9 {
			t.Errorf("recent rate: got %v, want 10", r.Recent())
		}
	})
}

func TestTimerDividesAllTimeIntoPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := metrics.NewTimer()
		time.Sleep(time.Hour) // stands still
		timer.Switch(metrics.Data)
		time.Sleep(1 * time.Second)
		timer.Switch(metrics.Compute)
		time.Sleep(6 * time.Second)
		timer.Add(metrics.Push, 2*time.Second)
		if before := timer.Switch(metrics.Wait); before != metrics.Compute {
			t.Errorf("Switch: got %v, want compute", before)
		}
		time.Sleep(3 * time.Second)
		want := map[metrics.Phase]metrics.Share{
			metrics.Data:    {Time: time.Second, Share: 0.1},
			metrics.Compute: {Time: 6 * time.Second, Share: 0.6},
			metrics.Push:    {Beside: 2 * time.Second},
			metrics.Wait:    {Time: 3 * time.Second, Share: 0.3},
			metrics.Other:   {},
		}
		for range 2 { // while it runs, and after
			for _, got := range timer.Shares() {
				w := want[got.Phase]
				w.Phase = got.Phase
				if got != w {
					t.Errorf("%v: got %+v, want %+v", got.Phase, got, w)
				}
			}
			timer.Stop()
			time.Sleep(time.Hour)
		}
		if timer.Total() != 10*time.Second {
			t.Errorf("total: got %v, want 10s", timer.Total())
		}
		timer.Reset()
		if timer.Total() != 0 {
			t.Errorf("total after Reset: got %v, want 0", timer.Total())
		}
	})
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

func BenchmarkTimerSwitch(b *testing.B) {
	timer := metrics.NewTimer()
	for b.Loop() {
		timer.Switch(metrics.Compute)
	}
}
