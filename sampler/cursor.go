package sampler

// A Cursor reads the indices of a part in an epoch, some at a time. It belongs to one goroutine.
type Cursor struct {
	places places
	left   spans
	// list takes the place of places and left in the order Contiguous.
	list []int
}

// Cursor returns a Cursor over the indices of epoch e without the first skip of them.
func (s *Sampler) Cursor(e, skip int) *Cursor {
	skip = min(max(skip, 0), s.size)
	if s.order.kind == contiguousKind && !s.inOrder {
		return &Cursor{list: s.contiguous(e)[skip:]}
	}
	c := &Cursor{places: rising{}}
	if !s.inOrder {
		c.places = s.order.places(s.whole, s.seed, s.first+e)
	}
	c.left.addPart(spansLeft(s.whole, s.cuts, s.policy), s.start+skip, s.size-skip)
	return c
}

// Next fills list with the next indices, and returns how many there were: fewer than there is room
// for at the end of the epoch.
func (c *Cursor) Next(list []int) int {
	if c.places == nil {
		n := copy(list, c.list)
		c.list = c.list[n:]
		return n
	}
	filled := 0
	for filled < len(list) && len(c.left.list) > 0 {
		now := &c.left.list[0]
		n := min(len(list)-filled, now.end-now.from)
		for i := range n {
			list[filled+i] = c.places.at(now.from + i)
		}
		filled += n
		if now.from += n; now.from == now.end {
			c.left.list = c.left.list[1:]
		}
	}
	return filled
}
