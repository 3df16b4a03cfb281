package adapt

import "testing"

// measuredJob is one job of the repository's own benchmarks on one machine: rows of workers,
// servers and seconds of a step.
type measuredJob struct {
	Bytes        int64
	Computing    float64 // seconds; 0: not known
	Shared       bool
	Batch        int
	Rows         [][3]float64
	SecondBatch  int          `json:"batch2"`
	RowsOfSecond [][3]float64 `json:"rows2"`
}

func (j measuredJob) timings() (timings []Timing) {
	add := func(batch int, rows [][3]float64) {
		for _, r := range rows {
			timings = append(timings, Timing{Nodes: 1, Replicas: int(r[0]), Servers: int(r[1]), LocalBatch: batch, Accumulation: j.Computing, Step: r[2]})
		}
	}
	add(j.Batch, j.Rows)
	add(j.SecondBatch, j.RowsOfSecond)
	return timings
}

// The model fits what real jobs took (note 27), and where a link decides, two workers tell what
// eight take.
func TestFitOfMeasuredJobs(t *testing.T) {
	var jobs map[string]measuredJob
	oracle(t, "measured.json", &jobs)
	for _, tc := range []struct {
		name       string
		mean, most float64
	}{
		{"1 Gbit/s", 0.005, 0.01},
		// Two workers take more than twice the time of one, which no link does: the cores
		// were busy, too.
		{"500 Mbit/s, computing", 0.05, 0.08},
		{"250 Mbit/s, computing", 0.06, 0.09},
		// A busy machine of two cores: two servers with two workers took longer than with
		// four.
		{"tcp", 0.20, 0.45},
		{"shared memory", 0.28, 0.60},
	} {
		job := jobs[tc.name]
		timings := job.timings()
		if len(timings) < 4 {
			t.Fatalf("%s: got %d timings", tc.name, len(timings))
		}
		p, err := FitParameterServer(timings, Cluster{Bytes: job.Bytes, Servers: 1, SharedMemory: job.Shared})
		if err != nil {
			t.Fatal(err)
		}
		mean, most := p.errorsOf(timings)
		t.Logf("%s: mean error %.3f, at most %.3f: %+v", tc.name, mean, most, p)
		if mean > tc.mean || most > tc.most {
			t.Errorf("%s: mean error %.3f, at most %.3f; want %.3f and %.3f", tc.name, mean, most, tc.mean, tc.most)
		}
	}

	job := jobs["1 Gbit/s"]
	var few, many []Timing
	for _, x := range job.timings() {
		if x.Replicas <= 2 {
			few = append(few, x)
		} else {
			many = append(many, x)
		}
	}
	p, err := FitParameterServer(few, Cluster{Bytes: job.Bytes, Servers: 1})
	if err != nil {
		t.Fatal(err)
	}
	mean, most := p.errorsOf(many)
	t.Logf("4 and 8 workers from 1 and 2: mean error %.3f, at most %.3f: %+v", mean, most, p)
	if mean > 0.1 {
		t.Errorf("4 and 8 workers from 1 and 2: mean error %.3f, want 0.1", mean)
	}
}
