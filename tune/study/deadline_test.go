package study

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
)

func TestADeadlineIsATimeOfTheDayADateOrASpan(t *testing.T) {
	begin := time.Date(2026, 11, 29, 10, 30, 0, 5, time.Local)
	for text, want := range map[string]time.Time{
		"18:00":                     time.Date(2026, 11, 29, 18, 0, 0, 0, time.Local),
		"09:15":                     time.Date(2026, 11, 30, 9, 15, 0, 0, time.Local),
		"10:30":                     time.Date(2026, 11, 30, 10, 30, 0, 0, time.Local),
		"18:00:30":                  time.Date(2026, 11, 29, 18, 0, 30, 0, time.Local),
		"2026-12-01T18:00":          time.Date(2026, 12, 1, 18, 0, 0, 0, time.Local),
		"2026-12-01 18:00:05":       time.Date(2026, 12, 1, 18, 0, 5, 0, time.Local),
		"2026-12-01T18:00:00+01:00": time.Date(2026, 12, 1, 17, 0, 0, 0, time.UTC),
		"2026-12-01T18:00Z":         time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC),
		"2h30m":                     time.Date(2026, 11, 29, 13, 0, 0, 5, time.Local),
	} {
		d, err := ParseDeadline(text)
		if err != nil || !d.After(begin).Equal(want) || d.String() != text {
			t.Errorf("%s: got %v, %v, want %v", text, d.After(begin), err, want)
		}
	}
	for _, text := range []string{"", "18", "25:00", "-2h", "0s", "2026-13-01T18:00", "tomorrow"} {
		if d, err := ParseDeadline(text); err == nil || !strings.Contains(err.Error(), "such as 18:00") {
			t.Errorf("%q: got %v, %v, want an error with examples", text, d.After(begin), err)
		}
	}
}

const withDeadline = "command: ./train {lr}\nmetric: v\nspace: {lr: {real: [0, 1]}}\ndeadline: "

// A search that is resumed, by hand or after a crash, has the deadline that it had.
func TestADeadlineCountsFromTheBeginOfTheSearch(t *testing.T) {
	begin := time.Date(2026, 11, 29, 10, 30, 0, 0, time.Local)
	load := func(deadline string) *Study {
		s, err := Parse("study.yaml", []byte(withDeadline+deadline+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := load("18:00")
	s.Config.Dir = filepath.Join(t.TempDir(), "search")
	if err := s.SetDeadline(Deadline{}, begin); err != nil || !s.Config.Deadline.Equal(time.Date(2026, 11, 29, 18, 0, 0, 0, time.Local)) {
		t.Fatalf("a new search: %v, %v", s.Config.Deadline, err)
	}
	c := s.Config
	c.Now = func() time.Time { return begin }
	one, err := tune.NewStudy(c)
	if err == nil {
		err = one.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for deadline, want := range map[string]time.Time{"18:00": time.Date(2026, 11, 29, 18, 0, 0, 0, time.Local), "3h": time.Date(2026, 11, 29, 13, 30, 0, 0, time.Local)} {
		again := load(deadline)
		again.Config.Dir = c.Dir
		if err := again.SetDeadline(Deadline{}, begin.Add(20*time.Hour)); err != nil || !again.Config.Deadline.Equal(want) {
			t.Errorf("%s: resumed on the next day: %v, %v, want %v", deadline, again.Config.Deadline, err, want)
		}
	}
	flag, err := ParseDeadline("2026-11-30T18:00")
	if err == nil {
		err = s.SetDeadline(flag, begin)
	}
	if err != nil || !s.Config.Deadline.Equal(time.Date(2026, 11, 30, 18, 0, 0, 0, time.Local)) {
		t.Errorf("with a flag: %v, %v", s.Config.Deadline, err)
	}
}

func TestANewSearchWhoseDeadlineHasPassedIsAnError(t *testing.T) {
	s, err := Parse("study.yaml", []byte(withDeadline+"2026-11-29T18:00\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Dir = filepath.Join(t.TempDir(), "search")
	if err := s.SetDeadline(Deadline{}, time.Date(2026, 11, 29, 19, 0, 0, 0, time.Local)); err == nil || !strings.Contains(err.Error(), "the deadline 2026-11-29T18:00 has passed") {
		t.Errorf("got %v, want an error", err)
	}
}

func TestAWrongDeadlineIsAMistakeOfItsLine(t *testing.T) {
	for _, wrong := range []string{"teatime", "[18]", "12"} {
		if _, err := Parse("study.yaml", []byte(withDeadline+wrong+"\n")); err == nil || !strings.Contains(err.Error(), "study.yaml line 4: deadline: got ") {
			t.Errorf("%s: got %v, want an error with line and field", wrong, err)
		}
	}
}
