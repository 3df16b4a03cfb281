package metrics

import "math"

// A Histogram counts whole numbers, such as the staleness of each step's
// gradients. The zero value is empty.
type Histogram struct {
	// Counts[n] is how often n was added; the last place, at maxBin, also
	// counts all that is larger.
	Counts []uint64
	// Count is how many numbers were added, Sum their sum, and Max the largest.
	Count uint64
	Sum   uint64
	Max   uint64
}

// maxBin bounds the memory of a Histogram.
const maxBin = 4095

// Add counts a number.
func (h *Histogram) Add(n uint64) {
	bin := int(min(n, maxBin))
	for len(h.Counts) <= bin {
		h.Counts = append(h.Counts, 0)
	}
	h.Counts[bin]++
	h.Count++
	h.Sum += n
	h.Max = max(h.Max, n)
}

// Merge counts all that o has counted.
func (h *Histogram) Merge(o *Histogram) {
	for len(h.Counts) < len(o.Counts) {
		h.Counts = append(h.Counts, 0)
	}
	for n, c := range o.Counts {
		h.Counts[n] += c
	}
	h.Count += o.Count
	h.Sum += o.Sum
	h.Max = max(h.Max, o.Max)
}

// Mean returns the mean, or NaN of nothing.
func (h *Histogram) Mean() float64 {
	if h.Count == 0 {
		return math.NaN()
	}
	return float64(h.Sum) / float64(h.Count)
}

// Quantile returns the smallest number that at least the share q, in [0, 1],
// of those added do not exceed; 0 of nothing. Of numbers above 4094 it tells
// no more than the largest.
func (h *Histogram) Quantile(q float64) uint64 {
	need := uint64(math.Ceil(q * float64(h.Count)))
	seen := uint64(0)
	for n, c := range h.Counts {
		if seen += c; c > 0 && seen >= need {
			if n == maxBin {
				break
			}
			return uint64(n)
		}
	}
	return h.Max
}
