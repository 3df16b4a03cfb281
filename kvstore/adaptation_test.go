package kvstore_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// What rank 0 says of how the job adapts reaches the status with the next heartbeat, the newest
// counts, and a scheduler shows nothing that it cannot read.
func TestTheStatusShowsHowAJobAdapts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{Workers: 2})
		stores := job.Stores(t, "dist_sync")
		status := func() *control.Adaptation {
			t.Helper()
			time.Sleep(1500 * time.Millisecond) // more than a heartbeat
			text, err := job.Control(t.Context(), `{"op":"status"}`)
			if err != nil {
				t.Fatal(err)
			}
			var s control.Status
			if err := control.DecodeAnswer([]byte(text), &s); err != nil {
				t.Fatal(err)
			}
			return s.Adaptation
		}
		report := func(rank, step int, gain float64) {
			t.Helper()
			text, err := control.EncodeAdaptation(control.Adaptation{Step: uint64(step), LocalBatch: 32, Gain: gain})
			if err != nil {
				t.Fatal(err)
			}
			if err := stores[rank].ReportAdaptation(text); err != nil {
				t.Fatal(err)
			}
		}
		if a := status(); a != nil {
			t.Errorf("nothing was said, and the status has %+v", a)
		}
		report(1, 9, 3) // not rank 0
		if a := status(); a != nil {
			t.Errorf("rank 1 said something, and the status has %+v", a)
		}
		report(0, 1, 1)
		report(0, 2, 1.5)
		if a := status(); a == nil || a.Step != 2 || a.Gain != 1.5 {
			t.Errorf("the status has %+v, want step 2 with gain 1.5", a)
		}
		for _, text := range []string{"{", `{"gain":-1}`, "\x00"} {
			if err := stores[0].ReportAdaptation(text); err != nil {
				t.Fatal(err)
			}
			if a := status(); a == nil || a.Step != 2 {
				t.Errorf("after %q the status has %+v, want that of step 2", text, a)
			}
		}
		for _, text := range []string{strings.Repeat("x", kvstore.MaxAdaptation+1), "\xff"} {
			if err := stores[0].ReportAdaptation(text); err == nil || !strings.Contains(err.Error(), "want at most 4096 of UTF-8") {
				t.Errorf("a text of %d bytes: got error %v", len(text), err)
			}
		}
	})
}
