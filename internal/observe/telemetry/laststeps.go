package telemetry

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// MaxSteps bounds the last steps in a Record.
const MaxSteps = 20

// A Step is one of a worker's last steps.
type Step struct {
	// Number is as Steps counts them, from 1.
	Number uint64

	// End is in microseconds of Unix time, by the process's clock.
	End int64

	Total time.Duration
	// Parts of Total.
	Compute, Wait, Data, Save time.Duration
}

// stepsHead and stepBytes are the sizes of a Record's last steps: number and end of the newest one,
// and each step.
const (
	stepsHead = 16
	stepBytes = 24
)

// ringSteps is more than MaxSteps, so that those that are read are seldom the ones that are
// written.
const ringSteps = 32

// lastSteps are a Recorder's newest steps. A writer marks its slot as unreadable while it writes; a
// reader leaves out what has changed meanwhile.
type lastSteps struct {
	// newest is the number of the newest step.
	newest atomic.Uint64

	ring [ringSteps]struct {
		// number is 0 while the step is being written.
		number atomic.Uint64

		values [6]atomic.Int64
	}
}

// last appends the last steps, oldest first, without gaps.
func (l *lastSteps) last(steps []Step) []Step {
	newest := l.newest.Load()
	for n := newest - min(newest, MaxSteps) + 1; n <= newest; n++ {
		x := &l.ring[n%ringSteps]
		if x.number.Load() != n {
			steps = steps[:0]
			continue
		}
		v := func(i int) time.Duration { return time.Duration(x.values[i].Load()) }
		s := Step{n, int64(v(0)), v(1), v(2), v(3), v(4), v(5)}
		if x.number.Load() != n {
			steps = steps[:0]
			continue
		}
		steps = append(steps, s)
	}
	return steps
}

// micros is a duration in microseconds that fits 32 bits: up to 71 minutes.
func micros(d time.Duration) uint32 { return uint32(min(max(0, d.Microseconds()), math.MaxUint32)) }

// appendSteps appends the steps of a Record, which follow one another.
func appendSteps(b []byte, steps []Step) []byte {
	if len(steps) == 0 {
		return b
	}
	newest := steps[len(steps)-1]
	b = binary.LittleEndian.AppendUint64(b, newest.Number)
	b = binary.LittleEndian.AppendUint64(b, uint64(newest.End))
	for _, s := range steps {
		before := uint32(min(max(0, newest.End-s.End), math.MaxUint32))
		for _, v := range [...]uint32{before, micros(s.Total), micros(s.Compute), micros(s.Wait), micros(s.Data), micros(s.Save)} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	return b
}

// decodeSteps reads so many steps, of which all bytes are there.
func decodeSteps(b []byte, n int) (steps []Step, err error) {
	if n == 0 {
		return nil, nil
	}
	number, end := binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))
	if number < uint64(n) || end < 0 {
		return nil, fmt.Errorf("telemetry: %w: %d steps up to number %d at %d µs, want numbers from 1 and a time from 0", ErrMalformed, n, number, end)
	}
	b = b[stepsHead:]
	for i := range n {
		var v [6]int64
		for k := range v {
			v[k] = int64(binary.LittleEndian.Uint32(b[4*k:]))
		}
		s := Step{Number: number - uint64(n-1-i), End: end - v[0]}
		if s.End < 0 || i == n-1 && v[0] != 0 {
			return nil, fmt.Errorf("telemetry: %w: step %d ended %d µs before the newest one at %d µs, want 0 for the newest, and a time from 0", ErrMalformed, s.Number, v[0], end)
		}
		for k, to := range []*time.Duration{&s.Total, &s.Compute, &s.Wait, &s.Data, &s.Save} {
			*to = time.Duration(v[k+1]) * time.Microsecond
		}
		steps = append(steps, s)
		b = b[stepBytes:]
	}
	return steps, nil
}
