package worker

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// guardedStore tells what was caught.
type guardedStore struct{ caught map[string]uint64 }

func (s *guardedStore) Caught(key string) uint64 { return s.caught[key] }

// What the servers' guard has caught of this worker is counted once, in the epoch in which it was
// told.
func TestCaughtGradientsAreToldByEpoch(t *testing.T) {
	store := &guardedStore{caught: map[string]uint64{"a": 2, "not a parameter": 9}}
	var count caughtCount
	var got []uint64
	for range 2 {
		got = append(got, count.take([]string{"a", "b"}, store))
	}
	store.caught["b"] = 5
	if got = append(got, count.take([]string{"a", "b"}, store)); got[0] != 2 || got[1] != 0 || got[2] != 5 {
		t.Errorf("take: got %d, want 2 0 5", got)
	}
}

func TestReportHasWhatTheGuardCaught(t *testing.T) {
	epoch := func(n int, caught uint64) EpochInfo {
		return EpochInfo{Epoch: n, Examples: 10, Train: time.Second, Caught: caught}
	}
	for _, tc := range []struct {
		epochs []EpochInfo
		want   []string // last cell of each row; none: no such column
	}{
		{[]EpochInfo{epoch(0, 0), epoch(1, 3)}, []string{"0", "3", "3"}},
		{[]EpochInfo{epoch(0, 0), epoch(1, 0)}, nil},
	} {
		var out bytes.Buffer
		if err := WriteReport(&out, tc.epochs); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if has := strings.HasSuffix(lines[0], "caught"); has != (tc.want != nil) {
			t.Errorf("the report has a column of what was caught: %v, want %v:\n%s", has, !has, &out)
			continue
		}
		for i, want := range tc.want {
			if cells := strings.Fields(lines[2+i]); cells[len(cells)-1] != want {
				t.Errorf("row %d ends in %q, want %q:\n%s", i, cells[len(cells)-1], want, &out)
			}
		}
	}
}
