package study

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Deadline is when a search is to end: at a time of the day, on a date, or so long after it
// began. All are counted from the time at which the search's log begins, so that a search that is
// resumed has the deadline that it had. The zero Deadline is never.
type Deadline struct {
	text string
	// clock is a time of the day, since midnight: the first one after the search began.
	clock time.Duration
	// date is a date and time; zero: it is not one.
	date time.Time
	// span is how long the search may take by the clock on the wall, also while it does not
	// run; 0: it is none.
	span time.Duration
}

// wantDeadline says what a deadline looks like.
const wantDeadline = "want a time of the day, such as 18:00, a date and time, such as 2026-11-29T18:00, or how long after the search's begin, such as 2h"

// ParseDeadline reads 18:00, 2026-11-29T18:00, the same with seconds or with a zone
// (2026-11-29T18:00:00+01:00), and 2h. Without a zone a time is local.
func ParseDeadline(text string) (Deadline, error) {
	d := Deadline{text: text}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			d.clock = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second
			return d, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, strings.Replace(text, " ", "T", 1), time.Local); err == nil {
			d.date = t
			return d, nil
		}
	}
	span, err := time.ParseDuration(text)
	if err != nil || span <= 0 {
		return Deadline{}, fmt.Errorf("got %q, %s", text, wantDeadline)
	}
	d.span = span
	return d, nil
}

// String is the text that ParseDeadline read.
func (d Deadline) String() string { return d.text }

// After is the deadline of a search that began at this time; the zero Time is never.
func (d Deadline) After(begin time.Time) time.Time {
	switch {
	case d.text == "":
		return time.Time{}
	case !d.date.IsZero():
		return d.date
	case d.span > 0:
		return begin.Add(d.span)
	}
	begin = begin.Local()
	for day := 0; ; day++ {
		y, m, date := begin.AddDate(0, 0, day).Date()
		t := time.Date(y, m, date, 0, 0, int(d.clock/time.Second), 0, time.Local)
		if t.After(begin) {
			return t
		}
	}
}

// read implements selfReader.
func (d *Deadline) read(r *reader, n *yaml.Node, field string) {
	if n.Kind != yaml.ScalarNode {
		r.bad(n, field, "got %s, %s", what(n), wantDeadline)
		return
	}
	got, err := ParseDeadline(n.Value)
	if err != nil {
		r.bad(n, field, "%v", err)
	}
	*d = got
}

// errRead ends the reading of a log.
var errRead = errors.New("read")
