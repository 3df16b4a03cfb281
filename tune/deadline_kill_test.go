package tune

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// lateConfig is that of a search of kill_test.go with a deadline. A look at its clock takes a
// second.
func lateConfig(dir string, clock *time.Time, deadline time.Time) Config {
	c := killConfig(dir)
	c.Deadline = deadline
	c.Now = func() time.Time {
		*clock = clock.Add(time.Second)
		return *clock
	}
	return c
}

// lateEnd resumes a search with a deadline, at the time of its log, and checks its end.
func lateEnd(t *testing.T, what string, disk *vfs.Mem, dir string, begin, deadline time.Time) {
	t.Helper()
	path := filepath.Join(dir, studydir.LogName)
	clock := begin
	before, err := readLog(disk, path, func(e *Event) error { clock = e.Time; return nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	s, err := newStudy(lateConfig(dir, &clock, deadline), disk)
	if err != nil {
		t.Fatalf("%s: resume: %v", what, err)
	}
	if err := simulate(s, false); err != nil {
		t.Fatalf("%s: go on: %v", what, err)
	}
	r := s.Result()
	if err := s.Close(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, x := range r.Trials() {
		if !x.State.Final() && x.State != Paused {
			t.Errorf("%s: trial %d is %s at the end", what, x.Number, x.State)
		}
	}
	if !strings.HasPrefix(r.Missed, deadlineRule) {
		t.Errorf("%s: missed %q, want what the deadline kept from being done", what, r.Missed)
	}
	events, late := 0, 0
	after, err := readLog(disk, path, func(e *Event) error {
		events++
		if e.isLate() {
			late++
		}
		if e.Kind == EventStart && !e.Time.Before(deadline) {
			t.Errorf("%s: event %d starts trial %d after the deadline", what, e.Seq, e.Trial)
		}
		return nil
	})
	if err != nil || after.Bytes < before.Bytes || late == 0 {
		t.Errorf("%s: %v; the log has %d events of %d bytes, %d of them of the deadline; it had %d bytes", what, err, events, after.Bytes, late, before.Bytes)
	}
	again, err := replay(disk, path, killConfig(dir))
	if err != nil || again.DecisionHash != r.DecisionHash() || again.Events != events {
		t.Errorf("%s: replay: %v, hash %.8s of %d events, want %.8s of %d", what, err, again.DecisionHash, again.Events, r.DecisionHash(), events)
	}
}

// lateSearch is a search without a break, whose deadline is where two thirds of its time are over,
// and its log.
func lateSearch(t *testing.T, dir string) (begin, deadline time.Time, log []byte) {
	t.Helper()
	begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	deadline = begin.Add(1000 * time.Hour)
	for i := range 2 { // the first has time for all
		disk, clock := &vfs.Mem{}, begin
		s, err := newStudy(lateConfig(dir, &clock, deadline), disk)
		if err == nil {
			err = simulate(s, false)
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		log = read(t, disk, filepath.Join(dir, studydir.LogName))
		if i == 0 {
			deadline = begin.Add(clock.Sub(begin) * 2 / 3)
		}
	}
	return begin, deadline, log
}

func TestASearchWithADeadlineThatIsCutAnywhereGoesOnAndReplays(t *testing.T) {
	dir := t.TempDir()
	begin, deadline, log := lateSearch(t, dir)
	for _, part := range []string{`"kind":"exhausted","rule":"deadline of `, `"kind":"abandon"`} {
		if !bytes.Contains(log, []byte(part)) {
			t.Fatalf("the log has no %s:\n%s", part, log)
		}
	}
	inside, every := 5, 5
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		inside, every = 100, 1
	}
	cuts, events := []int{len(log)}, 0
	for i, c := range log {
		if c == '\n' {
			if events%every == 0 {
				cuts = append(cuts, i+1)
			}
			events++
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range inside {
		cuts = append(cuts, rng.IntN(len(log)))
	}
	for _, cut := range cuts {
		disk := &vfs.Mem{}
		if err := vfs.WriteFile(disk, filepath.Join(dir, studydir.LogName), func(w io.Writer) error { _, err := w.Write(log[:cut]); return err }); err != nil {
			t.Fatal(err)
		}
		lateEnd(t, fmt.Sprintf("cut at byte %d of %d", cut, len(log)), disk, dir, begin, deadline)
	}
}

// A start that the deadline did not allow, or an end of the new trials before it was time, is a
// difference.
func TestReplayChecksWhatADeadlineCaused(t *testing.T) {
	dir := t.TempDir()
	_, _, log := lateSearch(t, dir)
	lines := bytes.SplitAfter(log, []byte("\n"))
	for what, kind := range map[string]string{"new trials": `"kind":"exhausted"`, "a trial": `"kind":"abandon"`} {
		for i, line := range lines {
			at := bytes.Index(line, []byte(` were left"`))
			if at < 0 || !bytes.Contains(line, []byte(kind)) {
				continue
			}
			changed := bytes.Clone(log[:len(bytes.Join(lines[:i], nil))])
			changed = append(changed, resum(bytes.Replace(line, []byte(" were left"), []byte(" are left"), 1))...)
			disk := &vfs.Mem{}
			if err := vfs.WriteFile(disk, "log", func(w io.Writer) error { _, err := w.Write(changed); return err }); err != nil {
				t.Fatal(err)
			}
			_, err := replay(disk, "log", killConfig(""))
			if !isDiverged(err) || !strings.Contains(err.Error(), fmt.Sprintf("event %d: ", i)) {
				t.Errorf("%s: got %v, want a difference at event %d", what, err, i)
			}
			break
		}
	}
}

// recorded is picky as a suggester whose proposals are in the log only.
type recorded struct{ picky }

func (recorded) Recorded() bool { return true }

// A recorded proposal that came too late for the deadline is not in the log, and yet the log
// replays.
func TestALogOfRecordedProposalsWithADeadlineReplays(t *testing.T) {
	dir := t.TempDir()
	_, deadline, _ := lateSearch(t, dir)
	clock := deadline.Add(-100 * time.Second)
	config := func() Config {
		c := lateConfig(dir, &clock, deadline)
		c.Suggester = recorded{}
		return c
	}
	disk := &vfs.Mem{}
	s, err := newStudy(config(), disk)
	if err == nil {
		err = simulate(s, false)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	log := read(t, disk, filepath.Join(dir, studydir.LogName))
	if !bytes.Contains(log, []byte(`"kind":"exhausted","rule":"deadline of `)) {
		t.Fatalf("the deadline kept no trial from starting:\n%s", log)
	}
	if got, err := replay(disk, filepath.Join(dir, studydir.LogName), config()); err != nil || got.Events != bytes.Count(log, []byte("\n")) {
		t.Errorf("got %+v, %v", got, err)
	}
}
