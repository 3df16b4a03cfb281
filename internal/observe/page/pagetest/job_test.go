package pagetest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write ../testdata/job.json again")

// The sample is what the made-up job says, so that work on the page can begin with it.
func TestSampleIsAState(t *testing.T) {
	j := &Job{Workers: 4, Servers: 2, Past: 30, Begin: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for range 3 {
		j.Poll(t.Context())
	}
	var got bytes.Buffer
	if err := json.Indent(&got, j.Whole()[0].Data, "", "\t"); err != nil {
		t.Fatal(err)
	}
	const file = "../testdata/job.json"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is not what the made-up job says now; run with -update", file)
	}
}
