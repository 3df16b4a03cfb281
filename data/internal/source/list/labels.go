package list

import "slices"

// labels has the labels of all examples, one behind the other.
type labels struct {
	all []float32
	// width is how many each example has.
	width int
	n     int
	// starts has where the labels of each example begin, if they do not all have as many; else
	// nil.
	starts []uint32
}

// add appends the labels of the next example, at least one.
func (l *labels) add(some []float32) {
	if l.n == 0 {
		l.width = len(some)
	}
	if l.starts == nil && len(some) != l.width {
		for i := range l.n {
			l.starts = append(l.starts, uint32(i*l.width))
		}
	}
	if l.starts != nil || len(some) != l.width {
		l.starts = append(l.starts, uint32(len(l.all)))
	}
	l.all = append(l.all, some...)
	l.n++
}

// trim gives back memory that was taken for more labels.
func (l *labels) trim() {
	l.all = append(make([]float32, 0, len(l.all)), l.all...)
	l.starts = append([]uint32(nil), l.starts...)
}

// at returns the labels of example i, for the caller to keep.
func (l *labels) at(i int) []float32 {
	if l.starts == nil {
		return slices.Clone(l.all[i*l.width : (i+1)*l.width])
	}
	end := len(l.all)
	if i+1 < l.n {
		end = int(l.starts[i+1])
	}
	return slices.Clone(l.all[l.starts[i]:end])
}
