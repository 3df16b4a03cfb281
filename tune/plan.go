package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A plan says which parameters of trial number n are fixed beforehand.
//
// First come the points, then the defaults, then the samples; each of them
// with all points of the grid that it leaves free.
type plan struct {
	space Space
	parts []part
	// first has for each part the number of its first trial, and then that of the first sample.
	first []int
	// total is how many trials there are to be; -1: there is no limit.
	total int
}

// A part is a point or the defaults: what is fixed, and where it is from.
type part struct {
	fixed  Params
	origin Origin
}

// newPlan makes the plan of a valid config.
func newPlan(c *Config) (*plan, error) {
	p := &plan{space: c.Space, first: []int{0}}
	for i, point := range c.Points {
		fixed, err := c.Space.point(point)
		if err != nil {
			return nil, fmt.Errorf("tune: config: Points[%d]: %w", i, err)
		}
		p.add(part{fixed, FromPoint})
	}
	if c.DefaultFirst {
		p.add(part{Params{}, FromDefault})
	}
	begin := p.first[len(p.parts)]
	samples := max(c.Samples, b2i(c.Samples == 0))
	switch size := gridSize(c.Space, Params{}); {
	case c.Samples < 0 || samples-len(p.parts) > (math.MaxInt-begin)/size:
		p.total = -1
	default:
		p.total = begin + max(samples-len(p.parts), 0)*size
	}
	return p, nil
}

// add adds a part behind those that are there.
func (p *plan) add(x part) {
	p.first = append(p.first, p.first[len(p.parts)]+gridSize(p.space, x.fixed))
	p.parts = append(p.parts, x)
}

// fixed returns what is fixed of trial number n, and where its parameters are from.
func (p *plan) fixed(n int) (Params, Origin) {
	i, ok := slices.BinarySearch(p.first, n)
	if !ok {
		i--
	}
	if i == len(p.parts) {
		n = (n - p.first[i]) % gridSize(p.space, Params{})
		return p.grid(n, Params{}), FromSuggester
	}
	x := p.parts[i]
	fixed := p.grid(n-p.first[i], x.fixed)
	if x.origin == FromDefault {
		if full, err := p.space.Defaults(fixed); err == nil {
			return full, FromDefault
		}
	}
	return fixed, x.origin
}

// grid adds point n of the axes that are free in fixed, in the order of the space.
func (p *plan) grid(n int, fixed Params) Params {
	size := gridSize(p.space, fixed)
	list := make([]pair, 0, len(fixed.list)+2)
	for _, q := range p.space {
		if v, ok := fixed.Get(q.Name); ok {
			if !slices.ContainsFunc(list, func(x pair) bool { return x.name == q.Name }) {
				list = append(list, pair{q.Name, v})
			}
		} else if q.Kind == KindGrid {
			size /= len(q.Values)
			list = append(list, pair{q.Name, q.Values[n/size]})
			n %= size
		}
	}
	return Params{list}
}

// gridSize is the number of points of the axes that fixed leaves free.
func gridSize(s Space, fixed Params) int {
	size := 1
	for _, p := range s {
		if p.Kind == KindGrid && !fixed.Has(p.Name) {
			if len(p.Values) > 0 && size > math.MaxInt32/len(p.Values) {
				return math.MaxInt
			}
			size *= len(p.Values)
		}
	}
	return size
}

// point checks a point: its values alone, in the order of the space. That they go together
// shows when the rest is proposed.
func (s Space) point(p Point) (Params, error) {
	var list []pair
	for _, name := range s.names() {
		value, ok := p[name]
		if !ok {
			continue
		}
		var v any
		var err error
		// A name may stand for several parameters, under different branches.
		for _, q := range s {
			if q.Name == name {
				if v, err = q.Check(value); err == nil {
					break
				}
			}
		}
		if err != nil {
			return Params{}, err
		}
		list = append(list, pair{name, v})
	}
	if len(list) == len(p) {
		return Params{list}, nil
	}
	var unknown []string
	for name := range p {
		if _, ok := s.Param(name); !ok {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	slices.Sort(unknown)
	return Params{}, fmt.Errorf("tune: there is no parameter %s in the space: there are %s", strings.Join(unknown, ", "), orNone(s.names()))
}
