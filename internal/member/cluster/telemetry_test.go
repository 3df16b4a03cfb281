package cluster_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
)

// Heartbeats tell the scheduler what a process records, what it sends by which transport, and how
// far its clock is from the scheduler's.
func TestHeartbeatsCarryWhatTheProcessRecords(t *testing.T) {
	for _, tls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			job := jobtest.New(t, jobtest.Config{TLS: tls})
			job.Net.Delay("worker0", "scheduler", time.Millisecond, 9*time.Millisecond)
			job.Net.Delay("scheduler", "worker0", time.Millisecond, 2*time.Millisecond)
			n, err := cluster.Join(t.Context(), job.WorkerConfig(0))
			if err != nil {
				t.Fatal(err)
			}
			defer n.Leave(context.WithoutCancel(t.Context()), true, "")
			asked := false
			n.Recorder().Add(telemetry.Steps, 7)
			n.Recorder().Collect(func(r *telemetry.Recorder) { asked = true; r.Set(telemetry.Loss, 0.5) })
			time.Sleep(30 * time.Second) // fake
			var got control.Telemetry
			answer, err := job.Control(t.Context(), `{"op":"telemetry"}`)
			if err == nil {
				err = json.Unmarshal([]byte(answer), &got)
			}
			if err != nil {
				t.Fatal(err)
			}
			worker, server := got.Nodes[1], got.Nodes[0]
			value := func(of control.NodeTelemetry, metric string, index int) float64 {
				for i, c := range got.Columns {
					if c.Metric == metric && c.Index == index {
						return float64(of.Values[i])
					}
				}
				return 0
			}
			if steps, loss := value(worker, "steps", 0), value(worker, "loss", 0); steps != 7 || loss != 0.5 || !asked {
				t.Errorf("got %v steps and a loss of %v, want 7 and 0.5", steps, loss)
			}
			kind := telemetry.TCP
			if tls {
				kind = telemetry.TLS
			}
			for _, of := range []control.NodeTelemetry{worker, server} {
				for _, metric := range []string{"sent_bytes", "received_bytes"} {
					for index := range telemetry.Transports {
						if v := value(of, metric, index); (v > 0) != (index == kind) {
							t.Errorf("%s: %s by %s are %v, want all by %s", of.Role, metric, telemetry.Transports[index], v, telemetry.Transports[kind])
						}
					}
				}
				if value(of, "resident_bytes", 0) < 1<<20 || value(of, "cpu_seconds", 0) <= 0 {
					t.Errorf("%s: got %v resident bytes and %v s of CPU", of.Role, value(of, "resident_bytes", 0), value(of, "cpu_seconds", 0))
				}
			}
			// All clocks are one here, so the offset itself is the error. The least
			// trip of 30 is near 2 ms.
			offset, bound, known := n.Clock().Offset()
			if !known || offset.Abs() > bound || bound <= 0 || bound > 5*time.Millisecond {
				t.Errorf("the offset is %v ± %v, want it within the bound, and the bound from 0 to 5 ms", offset, bound)
			}
			if v := value(worker, "clock_bound_seconds", 0); v <= 0 || v > 0.010 {
				t.Errorf("the scheduler was told a bound of %v s", v)
			}
			if v := value(worker, "heartbeat_seconds", 0); v < 0.002 || v > 0.020 {
				t.Errorf("the scheduler was told of a round trip of %v s, want 2 to 11 ms", v)
			}
		})
	}
}
