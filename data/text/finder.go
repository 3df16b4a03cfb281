package text

import (
	"slices"
	"strings"
)

// A finder finds special tokens in a text. A nil finder finds none.
type finder struct {
	tokens map[string]int32

	// lengths are those of the tokens by their first byte, the longest first.
	lengths [256][]int

	// lead is the byte that all begin with, and one says that there is such a byte.
	lead byte
	one  bool

	most int
}

func newFinder(tokens map[string]int32) *finder {
	if len(tokens) == 0 {
		return nil
	}
	f := &finder{tokens: tokens}
	leads := 0
	for token := range tokens {
		f.lead = token[0]
		if f.lengths[f.lead] == nil {
			leads++
		}
		f.lengths[f.lead] = append(f.lengths[f.lead], len(token))
		f.most = max(f.most, len(token))
	}
	f.one = leads == 1
	for i, lengths := range f.lengths {
		slices.Sort(lengths)
		lengths = slices.Compact(lengths)
		slices.Reverse(lengths)
		f.lengths[i] = lengths
	}
	return f
}

// longest is the length of the longest token.
func (f *finder) longest() int {
	if f == nil {
		return 0
	}
	return f.most
}

// find returns where the first special token of a text begins and ends, and its number. Both places
// are the end of the text if there is none.
func (f *finder) find(text string) (at, end int, id int32) {
	if f == nil {
		return len(text), len(text), 0
	}
	for at < len(text) {
		if f.one {
			skip := strings.IndexByte(text[at:], f.lead)
			if skip < 0 {
				break
			}
			at += skip
		}
		for _, n := range f.lengths[text[at]] {
			if at+n > len(text) {
				continue
			}
			if id, ok := f.tokens[text[at:at+n]]; ok {
				return at, at + n, id
			}
		}
		at++
	}
	return len(text), len(text), 0
}
