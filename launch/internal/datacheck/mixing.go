package datacheck

import (
	"math"
)

const (
	// blocksMixed is how many blocks an order by blocks mixes with each other.
	blocksMixed = 16
	// deviations is how many standard deviations a class has to have above its share for data
	// to be sorted by class: chance, in data that is shuffled, does not reach that in any
	// window.
	deviations = 6
)

// A mixing finds out whether data is sorted by class, as its examples come in order. It moves a
// window over the blocks: those of the data, or else runs of blockBytes.
type mixing struct {
	// starts are where the data's own blocks start; nil: it has none.
	starts []int

	// blockBytes is 0 if the data has no blocks of its own and gets none.
	blockBytes int64

	window []block

	// counts has the examples of the window by label.
	counts map[int]int

	// sound is how many examples of the window are not damaged.
	sound int

	// open is the block that is being filled.
	open block

	// runs has, of each class with more than half of a window, the window with the most above
	// half.
	runs map[int]Run
}

// A block counts the examples of a block.
type block struct {
	first, last int
	examples    int
	bytes       int64
	sound       int
	counts      map[int]int
}

func newMixing(starts []int, blockBytes int64) *mixing {
	return &mixing{starts: starts, blockBytes: blockBytes, counts: map[int]int{}, open: block{counts: map[int]int{}}, runs: map[int]Run{}}
}

// add takes example i. Its label is below 0 if it has no class.
func (m *mixing) add(i, label, bytes int, sound bool) {
	if len(m.starts) == 0 && m.blockBytes == 0 {
		return
	}
	if len(m.starts) > 0 {
		for len(m.starts) > 1 && i >= m.starts[1] {
			m.starts = m.starts[1:]
			m.end()
		}
	} else if m.open.bytes >= m.blockBytes {
		m.end()
	}
	b := &m.open
	if b.examples == 0 {
		b.first = i
	}
	b.last = i
	b.examples++
	b.bytes += int64(bytes)
	if sound {
		b.sound++
	}
	if sound && label >= 0 {
		b.counts[label]++
	}
}

// end closes the block that is being filled.
func (m *mixing) end() {
	m.window = append(m.window, m.open)
	for label, n := range m.open.counts {
		m.counts[label] += n
	}
	m.sound += m.open.sound
	m.open = block{counts: map[int]int{}}
	if len(m.window) < blocksMixed {
		return
	}
	for label, n := range m.counts {
		if best := m.runs[label]; 2*n > m.sound && 2*n-m.sound > 2*best.Images-best.Sound {
			m.runs[label] = Run{First: m.window[0].first, Last: m.window[blocksMixed-1].last, Label: label, Images: n, Sound: m.sound}
		}
	}
	oldest := m.window[0]
	for label, n := range oldest.counts {
		if m.counts[label] -= n; m.counts[label] == 0 {
			delete(m.counts, label)
		}
	}
	m.sound -= oldest.sound
	m.window = append(m.window[:0], m.window[1:]...)
}

// sorted is the first run of a class that chance does not explain; nil: there is none. The classes
// are those of all of the data, with so many sound images.
func (m *mixing) sorted(classes []Class, sound int) *Run {
	if m.open.examples > 0 {
		m.end()
	}
	var first *Run
	for _, r := range m.runs {
		share, n := float64(classes[r.Label].Images)/float64(sound), float64(r.Sound)
		if 2*classes[r.Label].Images >= sound || float64(r.Images) < share*n+deviations*math.Sqrt(n*share*(1-share)) {
			continue
		}
		if first == nil || r.First < first.First {
			first = &r
		}
	}
	return first
}
