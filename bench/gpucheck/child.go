package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// A checker is what a section writes rows to.
type checker struct {
	settings
	self string          // the path of this program
	ctx  context.Context // ends a little before the section is ended
	out  io.Writer
}

// rowsFile is the child's end of the pipe for rows.
const rowsFile = 3

// child is a section in a process of its own.
func child(ctx context.Context, s settings) int {
	chosen, err := choose(s.section)
	if err != nil || len(chosen) != 1 {
		fmt.Fprintln(os.Stderr, "gpucheck:", s.section, err)
		return exitUsage
	}
	if text := os.Getenv(limitVariable); text != "" {
		limit, err := time.ParseDuration(text)
		if err != nil {
			fmt.Fprintf(os.Stderr, "gpucheck: %s is %q: %v\n", limitVariable, text, err)
			return exitUsage
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	syscall.CloseOnExec(rowsFile) // programs that outlive the section must not hold it
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		return exitBad
	}
	c := &checker{settings: s, self: self, ctx: ctx, out: os.NewFile(rowsFile, "rows")}
	if err := chosen[0].run(c); err != nil {
		c.row(row{Name: "section " + s.section, Status: fail, Detail: err.Error()})
	}
	return 0
}

// row hands a row to the parent.
func (c *checker) row(r row) {
	text, err := json.Marshal(r)
	if err != nil { // a number that is none
		r.Value, r.Bound, r.Status = 0, 0, fail
		r.Detail = strings.TrimSpace(r.Detail + " (" + err.Error() + ")")
		if text, err = json.Marshal(r); err != nil {
			panic(err) // only text is left
		}
	}
	if _, err := fmt.Fprintf(c.out, "%s\n", text); err != nil && !errors.Is(err, os.ErrClosed) {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
	}
}

// infof is a row that only tells.
func (c *checker) infof(name, format string, args ...any) {
	c.row(row{Name: name, Status: info, Detail: fmt.Sprintf(format, args...)})
}

// measured is a row with a number that nothing is asked of.
func (c *checker) measured(name string, value float64, unit, format string, args ...any) {
	c.row(row{Name: name, Status: info, Value: value, Unit: unit, Detail: fmt.Sprintf(format, args...)})
}

// failed is a row of an error.
func (c *checker) failed(name string, err error) {
	c.row(row{Name: name, Status: fail, Detail: err.Error()})
}

// skipped is a row of something that was not looked at.
func (c *checker) skipped(name, why string) { c.row(row{Name: name, Status: skip, Detail: why}) }

// within is a row of an error that must be at most bound.
func (c *checker) within(name string, value, bound float64, detail string) {
	r := row{Name: name, Status: ok, Value: value, Unit: "relative error", Bound: bound, Detail: detail}
	if !(value <= bound) {
		r.Status = fail
	}
	c.row(r)
}

// late says, in a row, that there is no time for something.
func (c *checker) late(name string) bool {
	if c.ctx.Err() == nil {
		return false
	}
	c.skipped(name, "no time is left for it")
	return true
}
