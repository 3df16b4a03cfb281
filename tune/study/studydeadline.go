package study

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// Deadline is that of the file; zero: it has none.
func (s *Study) Deadline() Deadline { return s.file.Limits.Deadline }

// SetDeadline sets Config.Deadline to d, or to that of the file if d is zero. It counts from the
// begin of the search in Config.Dir, or from now if there is none. A new search whose deadline has
// passed is an error.
func (s *Study) SetDeadline(d Deadline, now time.Time) error {
	if d.text == "" {
		d = s.file.Limits.Deadline
	}
	if d.text == "" {
		return nil
	}
	begin, found, err := s.began()
	if err != nil {
		return err
	}
	if !found {
		begin = now
	}
	s.Config.Deadline = d.After(begin)
	if !found && !s.Config.Deadline.After(now) {
		return fmt.Errorf("study: the deadline %s has passed: it is %s", d, now.Format(time.DateTime))
	}
	return nil
}

// began is when the search in Config.Dir began, if there is one.
func (s *Study) began() (begin time.Time, found bool, err error) {
	err = tune.ReadLog(s.Config.Dir, func(e tune.Event) error {
		begin, found = e.Time, true
		return errRead
	})
	if errors.Is(err, errRead) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return begin, found, err
}
