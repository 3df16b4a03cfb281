package telemetry

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MaxRecord bounds an encoded Record, in bytes.
const MaxRecord = 2 << 10

// Limits that together keep to MaxRecord.
const (
	MaxSamples = 100
	MaxBlames  = 34
)

// A Record is what a process says of itself at one time.
type Record struct {
	// Samples are at most MaxSamples, sorted by metric and index, none of them twice.
	Samples []Sample

	// Blames are those of a server, at most MaxBlames, sorted by node: those that grew most since
	// the last record.
	Blames []Blame

	// Steps are a worker's last ones, at most MaxSteps, numbered one after another. A Record with
	// Blames has none.
	Steps []Step

	// Scores are those of a worker, at most MaxScores. A Record with Blames has none.
	Scores []Score
}

// A Sample is one value.
type Sample struct {
	Metric Metric
	Index  uint8

	// Value is NaN or infinite for some gauges.
	Value float64
}

// A Blame says what a server has charged to one worker since the server's begin: in how many rounds
// its contribution came last, and how long after the last but one, in all. Rounds of one
// contribution charge nobody, nor do those in which the last two came almost together.
type Blame struct {
	// Node is the worker that is blamed.
	Node uint64

	Rounds  uint64
	Seconds float64
}

// format is the first byte of a record.
const format = 1

// head is the size of what is before the samples.
const head = 4

// Append appends the record's bytes. All numbers are little-endian:
//
//	offset  size  field
//	     0     1  format    1
//	     1     1  samples   how many
//	     2     1  blames    how many
//	     3     1  steps     how many
//	     4    10  each sample: metric 1, index 1, value 8 (float64)
//	     .    24  each blame: node 8, rounds 8, seconds 8 (float64)
//	     .    16  if there are steps: number of the newest one 8, its end 8 (microseconds of Unix time)
//	     .    24  each step: how long before the newest one it ended, total, compute, wait, data, save, 4 each (microseconds)
//	     .     1  if there are scores: how many; else the record ends here
//	     .   9+n  each score: length n of the name 1, name n, value 8 (float64)
//
// Samples, blames, steps and scores beyond the limits are left out.
func (r *Record) Append(b []byte) []byte {
	samples, blames := r.Samples[:min(len(r.Samples), MaxSamples)], r.Blames[:min(len(r.Blames), MaxBlames)]
	steps, scores := r.Steps[max(0, len(r.Steps)-MaxSteps):], r.Scores
	if len(blames) > 0 {
		steps, scores = nil, nil
	}
	b = append(b, format, uint8(len(samples)), uint8(len(blames)), uint8(len(steps)))
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint64(append(b, uint8(s.Metric), s.Index), math.Float64bits(s.Value))
	}
	for _, x := range blames {
		b = binary.LittleEndian.AppendUint64(b, x.Node)
		b = binary.LittleEndian.AppendUint64(b, x.Rounds)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x.Seconds))
	}
	return appendScores(appendSteps(b, steps), scores)
}

// Decode reads a record. Metrics and indices that this version does not know are left out. Counters
// that are negative or not finite are an error.
func Decode(b []byte) (Record, error) {
	var r Record
	if len(b) < head || len(b) > MaxRecord {
		return r, fmt.Errorf("telemetry: %w of %d bytes, want 4 to %d", ErrMalformed, len(b), MaxRecord)
	}
	if b[0] != format {
		return r, fmt.Errorf("telemetry: %w of format %d, want %d", ErrMalformed, b[0], format)
	}
	samples, blames, steps := int(b[1]), int(b[2]), int(b[3])
	want := head + 10*samples + 24*blames
	if steps > 0 {
		want += stepsHead + stepBytes*steps
	}
	if len(b) < want || len(b) > want && blames > 0 {
		return r, fmt.Errorf("telemetry: %w of %d bytes, want %d for %d samples, %d blames and %d steps", ErrMalformed, len(b), want, samples, blames, steps)
	}
	if steps > MaxSteps || steps > 0 && blames > 0 {
		return r, fmt.Errorf("telemetry: %w: %d steps and %d blames, want at most %d steps, and none with blames", ErrMalformed, steps, blames, MaxSteps)
	}
	b = b[head:]
	previous := -1
	for ; samples > 0; samples, b = samples-1, b[10:] {
		s := Sample{Metric(b[0]), b[1], math.Float64frombits(binary.LittleEndian.Uint64(b[2:]))}
		if at := int(b[0])<<8 | int(b[1]); at <= previous {
			return Record{}, fmt.Errorf("telemetry: %w: sample %v[%d] is not behind the one before", ErrMalformed, s.Metric, s.Index)
		} else {
			previous = at
		}
		i, ok := s.Metric.Info()
		if !ok || int(s.Index) >= i.Width || s.Metric == TestScore {
			continue
		}
		if i.Kind == Counter && !(s.Value >= 0 && s.Value <= math.MaxFloat64) {
			return Record{}, fmt.Errorf("telemetry: %w: counter %v is %g, want a finite number from 0", ErrMalformed, s.Metric, s.Value)
		}
		r.Samples = append(r.Samples, s)
	}
	for ; blames > 0; blames, b = blames-1, b[24:] {
		x := Blame{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), math.Float64frombits(binary.LittleEndian.Uint64(b[16:]))}
		if !(x.Seconds >= 0 && x.Seconds <= math.MaxFloat64) {
			return Record{}, fmt.Errorf("telemetry: %w: node %d is charged with %g seconds, want a finite number from 0", ErrMalformed, x.Node, x.Seconds)
		}
		if n := len(r.Blames); n > 0 && r.Blames[n-1].Node >= x.Node {
			return Record{}, fmt.Errorf("telemetry: %w: blame of node %d is not behind the one before", ErrMalformed, x.Node)
		}
		r.Blames = append(r.Blames, x)
	}
	last, err := decodeSteps(b, steps)
	if err != nil {
		return Record{}, err
	}
	r.Steps = last
	if steps > 0 {
		b = b[stepsHead+stepBytes*steps:]
	}
	if r.Scores, err = decodeScores(b); err != nil {
		return Record{}, err
	}
	return r, nil
}
