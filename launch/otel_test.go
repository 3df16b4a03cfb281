package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/otel/oteltest"
)

// A collector that the user names gets the spans of a job whose worker is killed and replaced, with
// nothing in them that is secret.
func TestSpansOfARunningJob(t *testing.T) {
	t.Parallel()
	c := oteltest.New(t)
	j := startElastic(t, "--otel-endpoint", c.URL, "--rejoin", "1")
	secrets := secretsOf(j.job(t))
	kill(t, j.worker(t, 1))
	j.await(t, "joined true")
	j.finish(t)

	spans := c.Spans()
	names := make(map[string]int)
	ids := make(map[string]oteltest.Span)
	for _, s := range spans {
		ids[s.ID] = s
		names[s.Name]++
		if s.Trace != spans[0].Trace || s.End.Before(s.Begin) {
			t.Errorf("%+v: of another trace than %x, or it ends before it begins", s, spans[0].Trace)
		}
	}
	for _, s := range spans {
		want := map[string]string{"job": "", "attempt": "job"}
		parent, ok := want[s.Name]
		if !ok {
			parent = "attempt"
		}
		if ids[s.Parent].Name != parent || s.Failed {
			t.Errorf("%s is below %q, failed %t %s; want below %q", s.Name, ids[s.Parent].Name, s.Failed, s.Message, parent)
		}
		if s.Name == "attempt" {
			var events []string
			for _, e := range s.Events {
				events = append(events, e.Name)
			}
			for _, name := range []string{"running", "LOST", "ADDED"} {
				if !slices.Contains(events, name) {
					t.Errorf("the attempt has the events %q, want %s too", events, name)
				}
			}
		}
	}
	if names["job"] != 1 || names["attempt"] != 1 || names["join scheduler"] != 1 || names["join server"] != 1 || names["join worker"] != 3 || names["change"] < 1 {
		t.Errorf("spans %v, want one job, attempt, join of scheduler and server, three joins of workers, and a change", names)
	}
	raw := c.Raw()
	for _, secret := range append(secrets, "PARAGON_", stopFile, j.stop) {
		if len(secret) > 0 && bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the spans have %q in them", secret)
		}
	}
	if len(secrets) == 0 {
		t.Error("the job has no secrets: the test looks for the wrong ones")
	}
}
