package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// A checker is what a section of this program writes rows to.
type checker struct {
	settings

	// self is the path of this program.
	self string

	// ctx ends a little before the section is ended.
	ctx context.Context

	out io.Writer
}

// child is a section in a process of its own.
func child(ctx context.Context, s settings) int {
	chosen, err := choose(s.section)
	if err != nil || len(chosen) != 1 || chosen[0].run == nil {
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
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		return exitBad
	}
	c := &checker{settings: s, self: self, ctx: ctx, out: os.Stdout}
	if err := chosen[0].run(c); err != nil {
		c.failed("section "+s.section, err)
	}
	return 0
}

// row hands a row to the parent, as a test does.
func (c *checker) row(r row) {
	fmt.Fprintf(c.out, "%s%s%s %s %s\n", mark, attribute, c.section, gputest.Key, r.Text())
}

// measured is a row with a number that nothing is asked of; without a unit it is only said.
func (c *checker) measured(name string, value float64, unit, format string, args ...any) {
	c.row(row{Name: name, Status: info, Value: value, Unit: unit, Detail: fmt.Sprintf(format, args...)})
}

// infof is a row that only tells.
func (c *checker) infof(name, format string, args ...any) { c.measured(name, 0, "", format, args...) }

// failed is a row of an error.
func (c *checker) failed(name string, err error) {
	c.row(row{Name: name, Status: fail, Detail: err.Error()})
}

// skipped is a row of something that was not looked at.
func (c *checker) skipped(name, why string) { c.row(row{Name: name, Status: skip, Detail: why}) }

// late says, in a row, that there is no time for something.
func (c *checker) late(name string) bool {
	if c.ctx.Err() == nil {
		return false
	}
	c.skipped(name, "no time is left for it")
	return true
}
