package gputest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// What is given is poison, holds what is written, and a byte that is written beside it is found.
func TestMemoryLiesBetweenGuards(t *testing.T) {
	ctx := fake.New(t).Context(0)
	gputest.BeOn(t)
	var s drv.Stream
	gputest.Must(t, ctx.Do(func() (err error) { s, err = ctx.NewStream(0); return }))
	m, err := gputest.NewMemory(ctx, s)
	gputest.Must(t, err)
	for _, c := range []struct {
		at   int // of a byte that is written; 0: none
		says string
	}{{0, ""}, {10, "byte 10 from a buffer of 10 bytes"}, {-1, "byte -1 from a buffer of 10 bytes"}} {
		p, err := m.Room(10, 4)
		gputest.Must(t, err)
		if got, err := m.Read(p, 10); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{0xff}, 10)) {
			t.Errorf("fresh memory is %x (%v), want poison", got, err)
		}
		gputest.Must(t, m.Repeat(p, 10, []byte("abc")))
		if got, err := m.Read(p, 10); err != nil || string(got) != "abcabcabca" {
			t.Errorf("got %q (%v), want abc again and again", got, err)
		}
		if c.at != 0 {
			gputest.Must(t, m.Write(p+drv.Ptr(c.at), []byte{0}))
		}
		if err := m.Release(); (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("a byte at %d was written: got error %v, want %q", c.at, err, c.says)
		}
	}
	gputest.Must(t, m.Close())
	gputest.Must(t, ctx.Do(func() error { return ctx.DestroyStream(s) }))
}
