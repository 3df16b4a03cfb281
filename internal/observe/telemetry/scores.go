package telemetry

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// A Score is what a worker's newest evaluation has measured under a name of the user's, such as
// top5.
type Score struct {
	Name  string  // see IsScoreName
	Value float64 // may be NaN or infinite
}

// scoreHead is the size of a Score's bytes besides its name.
const scoreHead = 1 + 8

// IsScoreName reports whether a Score may have the name: at most MaxScoreName letters, digits and
// "_", the first of them no digit.
func IsScoreName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', i > 0 && '0' <= c && c <= '9':
		default:
			return false
		}
	}
	return name != "" && len(name) <= MaxScoreName
}

func hasScore(list []Score, name string) bool {
	return slices.ContainsFunc(list, func(s Score) bool { return s.Name == name })
}

// appendScores appends the scores of a Record, if there are any.
func appendScores(b []byte, scores []Score) []byte {
	scores = scores[:min(len(scores), MaxScores)]
	if len(scores) == 0 {
		return b
	}
	b = append(b, uint8(len(scores)))
	for _, s := range scores {
		name := s.Name[:min(len(s.Name), MaxScoreName)]
		b = append(append(b, uint8(len(name))), name...)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.Value))
	}
	return b
}

// decodeScores reads the scores from what is left of a Record's bytes; nothing: there are none.
func decodeScores(b []byte) (scores []Score, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	n := int(b[0])
	if n == 0 || n > MaxScores {
		return nil, fmt.Errorf("telemetry: %w: %d scores, want 1 to %d", ErrMalformed, n, MaxScores)
	}
	b = b[1:]
	for range n {
		if len(b) < scoreHead || len(b) < scoreHead+int(b[0]) {
			return nil, fmt.Errorf("telemetry: %w: score %d of %d ends behind the record", ErrMalformed, len(scores), n)
		}
		end := 1 + int(b[0])
		s := Score{string(b[1:end]), math.Float64frombits(binary.LittleEndian.Uint64(b[end:]))}
		if !IsScoreName(s.Name) || hasScore(scores, s.Name) {
			return nil, fmt.Errorf("telemetry: %w: score %q, want a name of at most %d letters, digits and _, and each once", ErrMalformed, s.Name, MaxScoreName)
		}
		scores, b = append(scores, s), b[end+8:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("telemetry: %w: %d bytes behind the scores, want none", ErrMalformed, len(b))
	}
	return scores, nil
}

// addScores puts the scores of a record into a process's values.
func (h *History) addScores(values *[numSlots]float64, scores []Score) {
	for _, s := range scores {
		i := slices.Index(h.scores, s.Name)
		if i < 0 && len(h.scores) < MaxScores {
			i, h.scores = len(h.scores), append(h.scores, s.Name)
		}
		if i >= 0 {
			values[first[TestScore]+i] = s.Value
		}
	}
}
