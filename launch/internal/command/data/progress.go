package data

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
)

// progressEvery is how often progress is said.
const progressEvery = 10 * time.Second

// A progress says from time to time how far a command is.
type progress struct {
	// w is the standard error: the standard output is for results.
	w io.Writer

	// what is the command's name.
	what string

	// all is the number of images.
	all int

	// begun is when the work began, and said when the last line was written.
	begun, said time.Time
}

// newProgress begins to say how far the command is with so many images.
func newProgress(c *cli.Context, all int) *progress {
	// The first line comes after ten seconds: what takes less needs none.
	now := time.Now()
	return &progress{c.App.ErrWriter, called(c), all, now, now}
}

// at is told how many images are done.
func (p *progress) at(done int) {
	now := time.Now()
	if now.Sub(p.said) < progressEvery || done == 0 {
		return
	}
	p.said = now
	rate := float64(done) / now.Sub(p.begun).Seconds()
	left := time.Duration(float64(p.all-done) / rate * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(p.w, "launch: %s: %d of %d images, %.0f/s, %v left\n", p.what, done, p.all, rate, left)
}
