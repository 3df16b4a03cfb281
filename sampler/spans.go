package sampler

import "sort"

// A span is a run of positions of an epoch, from the first up to but without the end.
type span struct{ from, end int }

// spans are positions of an epoch in the order in which they are read: a list without the list.
type spans struct {
	list []span
	// until has the numbers of positions up to the end of each span.
	until []int
}

func (s *spans) len() int {
	if len(s.until) == 0 {
		return 0
	}
	return s.until[len(s.until)-1]
}

// add appends a span, as part of the last one where it goes on with it.
func (s *spans) add(from, end int) {
	if from >= end {
		return
	}
	all := s.len() + end - from
	if n := len(s.list); n > 0 && s.list[n-1].end == from {
		s.list[n-1].end, s.until[n-1] = end, all
		return
	}
	s.list, s.until = append(s.list, span{from, end}), append(s.until, all)
}

// addPart appends n of the positions of other, from the one at place start on. Behind the last one
// comes the first.
func (s *spans) addPart(other *spans, start, n int) {
	for n > 0 {
		start %= other.len()
		k := sort.SearchInts(other.until, start+1)
		from := other.list[k].end - (other.until[k] - start)
		end := min(other.list[k].end, from+n)
		s.add(from, end)
		start, n = start+end-from, n-(end-from)
	}
}

// spansLeft returns what remains of an epoch of so many examples after the cuts.
func spansLeft(length int, cuts []Cut, policy Policy) *spans {
	left := &spans{}
	left.add(0, length)
	for _, cut := range cuts {
		n, next := left.len(), &spans{}
		for part, used := range cut.Used {
			start, size := share(n, cut.Parts, part, policy)
			used = min(used, size)
			next.addPart(left, start+used, size-used)
		}
		rest := dropped(n, cut.Parts, policy)
		next.addPart(left, n-rest, rest)
		left = next
	}
	return left
}
