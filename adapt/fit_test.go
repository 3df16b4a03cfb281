package adapt

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// tracesFolder is where the simulator's traces are.
func tracesFolder(t testing.TB) string {
	t.Helper()
	root := os.Getenv("PARAGON_TEST_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	folder := filepath.Join(root, "pollux", "traces")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no traces of the simulator (set PARAGON_TEST_DATA): %v", err)
	}
	return folder
}

// traceTimings reads the measurements of one application. A step's computing time is its time less
// the synchronisation time.
func traceTimings(t testing.TB, app string) (timings []Timing) {
	t.Helper()
	folder := filepath.Join(tracesFolder(t), app)
	for _, name := range []string{"placements.csv", "scalability.csv"} {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		records, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		number := func(s string) float64 {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		for _, r := range records[1:] {
			var x Timing
			if name == "placements.csv" { // replicas on each node, as digits
				x.Nodes = len(r[0])
				for _, digit := range r[0] {
					x.Replicas += int(digit - '0')
				}
				r = r[1:]
			} else {
				x.Nodes, x.Replicas = int(number(r[0])), int(number(r[1]))
				r = r[2:]
			}
			x.LocalBatch, x.Step = int(number(r[0])), number(r[1])
			x.Accumulation = x.Step - number(r[2])
			timings = append(timings, x)
		}
	}
	return timings
}

// loss is the objective, for any parameters.
func (a AllReduce) loss(t testing.TB, timings []Timing) float64 {
	t.Helper()
	rows, err := distinct(timings)
	if err != nil {
		t.Fatal(err)
	}
	var g vector
	var h matrix
	x := vector{a.AlphaCompute, a.BetaCompute, a.AlphaNodes, a.BetaNodes, a.AlphaReplicas, a.BetaReplicas, a.Gamma}
	f, _ := newAllReduceFit(rows)
	return f.value(&x, &g, &h)
}

// value evaluates with every parameter free.
func (f *blendFit) value(x, g *vector, h *matrix) float64 {
	f.free = f.free[:0]
	for i := range f.gamma() {
		f.free = append(f.free, i)
	}
	return f.evaluate(x, g, h)
}

// stepErrors are the root mean square error of the logarithm and the mean absolute relative error
// of predicted closing steps.
func stepErrors(m Model, rows []Timing) (rmsle, mape float64) {
	for _, r := range rows {
		got := m.StepTime(r.Nodes, r.Replicas, r.LocalBatch, 0)
		rmsle += math.Pow(math.Log(got/r.Step), 2) / float64(len(rows))
		mape += math.Abs(got/r.Step-1) / float64(len(rows))
	}
	return math.Sqrt(rmsle), mape
}

type traceFit struct {
	Rows      int
	Params    []float64
	Objective float64
	RMSLE     float64 `json:"optim_step_rmsle"`
	MAPE      float64 `json:"optim_step_mape"`
}

func paramsOf(p []float64) AllReduce { return AllReduce{p[0], p[1], p[2], p[3], p[4], p[5], p[6]} }

func TestFitOfTraces(t *testing.T) {
	fits := map[string]traceFit{}
	oracle(t, "trace_fits.json", &fits)
	for _, app := range []string{"bert", "cifar10", "ncf", "imagenet"} {
		t.Run(app, func(t *testing.T) {
			timings, want := traceTimings(t, app), fits[app]
			rows, err := distinct(timings)
			if err != nil || len(rows) != want.Rows {
				t.Fatalf("got %d distinct configurations, %v, want %d", len(rows), err, want.Rows)
			}
			if loss := paramsOf(want.Params).loss(t, timings); !near(loss, want.Objective, 1e-9) {
				t.Errorf("objective of the reference's parameters: got %.12g, want %.12g", loss, want.Objective)
			}
			got, err := FitAllReduce(timings)
			if err != nil {
				t.Fatal(err)
			}
			loss := got.loss(t, timings)
			rmsle, mape := stepErrors(got, rows)
			t.Logf("objective %.8f (reference %.8f), RMSLE %.5f (%.5f), MAPE %.5f (%.5f): %+v", loss, want.Objective, rmsle, want.RMSLE, mape, want.MAPE, got)
			if !(loss <= want.Objective*(1+1e-6)) {
				t.Errorf("objective %.8f, want at most %.8f", loss, want.Objective)
			}
			if !(rmsle <= want.RMSLE*(1+1e-4)) || !(mape <= want.MAPE*(1+1e-4)) {
				t.Errorf("RMSLE %.5f and MAPE %.5f, want at most %.5f and %.5f", rmsle, mape, want.RMSLE, want.MAPE)
			}
		})
	}
}

func BenchmarkFitAllReduce(b *testing.B) {
	for _, app := range []string{"bert", "imagenet", "ncf"} {
		timings := traceTimings(b, app)
		for _, rows := range []int{10, 50, len(timings)} {
			some := timings
			if rows < len(some) {
				some = nil
				for i := range rows {
					some = append(some, timings[i*len(timings)/rows])
				}
			}
			b.Run(fmt.Sprintf("app=%s/timings=%d", app, rows), func(b *testing.B) {
				for b.Loop() {
					if _, err := FitAllReduce(some); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
