package exposition

import (
	"io"
	"log/slog"
	"math"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// measured is a Recorder that has something of everything.
func measured() *telemetry.Recorder {
	var r telemetry.Recorder
	for _, m := range telemetry.Metrics() {
		i, _ := m.Info()
		for index := range i.Width {
			r.SetAt(m, index, float64(index)+.5)
		}
	}
	r.Set(telemetry.Loss, math.NaN())
	return &r
}

func TestTextOfAWorker(t *testing.T) {
	var r telemetry.Recorder
	r.Add(telemetry.Steps, 2)
	r.Add(telemetry.StepSeconds, .25)
	r.Observe(telemetry.StepBuckets, .05)
	r.Observe(telemetry.StepBuckets, .2)
	r.Set(telemetry.Loss, math.Inf(1))
	r.AddAt(telemetry.SentBytes, telemetry.SharedMemory, 7e6)
	r.SetScores([]telemetry.Score{{Name: "top5", Value: .5}, {Name: "f1", Value: .25}})
	var b strings.Builder
	if err := Write(&b, Process{Worker, 3, "a\"b\\c\n", 9}, r.Record()); err != nil {
		t.Fatal(err)
	}
	const labels = `host="a\"b\\c\n",node="9",rank="3"`
	for _, want := range []string{
		"# TYPE paragon_worker_steps_total counter\nparagon_worker_steps_total{" + labels + "} 2\n",
		"paragon_worker_loss{" + labels + "} +Inf\n",
		"paragon_worker_sent_bytes_total{" + labels + `,transport="memory"} 7e+06` + "\n",
		"# TYPE paragon_worker_test_score gauge\nparagon_worker_test_score{" + labels + `,name="top5"} 0.5` + "\nparagon_worker_test_score{" + labels + `,name="f1"} 0.25` + "\n",
		"# TYPE paragon_worker_step_duration_seconds histogram\n",
		"paragon_worker_step_duration_seconds_bucket{" + labels + `,le="0.025"} 0` + "\n",
		"paragon_worker_step_duration_seconds_bucket{" + labels + `,le="0.05"} 1` + "\n",
		"paragon_worker_step_duration_seconds_bucket{" + labels + `,le="+Inf"} 2` + "\n",
		"paragon_worker_step_duration_seconds_sum{" + labels + "} 0.25\n",
		"paragon_worker_step_duration_seconds_count{" + labels + "} 2\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no\n%s\nin\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "paragon_server") || strings.Contains(b.String(), "examples") {
		t.Errorf("there is what a worker has not measured:\n%s", b.String())
	}
}

// promtool has nothing to complain of, and an endpoint serves the same.
func TestEndpoint(t *testing.T) {
	r := measured()
	for _, role := range []string{Worker, Server} {
		e, err := Listen("127.0.0.1:0", func() Process { return Process{role, 1, "h", 4} }, r.Record, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		answer, err := http.Get("http://" + e.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "paragon_"+role+"_resident_bytes{") {
			t.Errorf("%s: %s (%v):\n%s", role, answer.Status, err, body)
		}
		promtool, err := exec.LookPath("promtool")
		if err != nil {
			t.Log("there is no promtool here: install Debian's package prometheus")
			continue
		}
		check := exec.Command(promtool, "check", "metrics")
		check.Stdin = strings.NewReader(string(body))
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: promtool check metrics: %v: %s", role, err, out)
		}
	}
	if _, err := Listen("192.0.2.1:0", nil, nil, slog.Default()); err == nil {
		t.Error("an address of another machine was taken")
	}
}
