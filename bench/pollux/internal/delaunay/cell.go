package delaunay

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
)

// A height is a·M + b for an M beyond all numbers: corners of the surrounding tetrahedron have
// height M.
type height [2]int

func (h height) less(o height) bool { return h[0] < o[0] || h[0] == o[0] && h[1] < o[1] }

// compareProducts compares a·b with c·d, which may not fit 64 bits; none is negative.
func compareProducts(a, b, c, d int) int {
	high, low := bits.Mul64(uint64(a), uint64(b))
	otherHigh, otherLow := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(high, otherHigh), cmp.Compare(low, otherLow))
}

// lessRatio compares a/x with b/y, whose cross products may not fit 64 bits; x and y are positive.
func lessRatio(a height, x int, b height, y int) bool {
	for i := range a {
		left, right := big.NewInt(int64(a[i])), big.NewInt(int64(b[i]))
		if c := left.Mul(left, big.NewInt(int64(y))).Cmp(right.Mul(right, big.NewInt(int64(x)))); c != 0 {
			return c < 0
		}
	}
	return false
}

// A basis is four points around q, and the plane through their lifted positions: volume·height(p) =
// offset + slope·p.
type basis struct {
	at [4]int

	// volume is positive.
	volume int

	slope  [2]Point
	offset height
}

// facet returns four corners of a cell that q lies in.
//
// The linear program: of all weights that are not negative, add up to 1 and have their centre at q,
// find those with the least mean height. Each pivot lets the point that lies deepest below the
// plane enter the basis. Should that go round in circles, which it may where q lies on a face,
// Bland's rule (the first point that fits) ends it.
func (d *Interpolator) facet(q Point) (basis, bool) {
	b := d.basis([4]int{d.n, d.n + 1, d.n + 2, d.n + 3})
	for pivots := 0; ; pivots++ {
		enter, deepest := -1, height{}
		for p := range d.n {
			if h := d.above(b, p); h.less(deepest) {
				enter, deepest = p, h
				if pivots > 1000 {
					break
				}
			}
		}
		if enter < 0 {
			break
		}
		// The corner whose weight falls to 0 first leaves.
		leave, weight, rate := -1, 0, 1
		for i := range b.at {
			r := d.part(b.at, i, d.points[enter])
			if r <= 0 {
				continue
			}
			w := d.part(b.at, i, q)
			c := -1
			if leave >= 0 {
				c = compareProducts(w, rate, weight, r)
			}
			if c < 0 || c == 0 && b.at[i] < b.at[leave] {
				leave, weight, rate = i, w, r
			}
		}
		b.at[leave] = enter
		b = d.basis(b.at)
	}
	// Corners with a weight: q is outside. Without one: q is on the hull, and the plane turns
	// about the other corners until it meets a point.
	for i := 0; i < 4; i++ {
		if b.at[i] < d.n {
			continue
		}
		if d.part(b.at, i, q) != 0 {
			return b, false
		}
		var ok bool
		if b, ok = d.turn(b, i); !ok {
			// All points lie in one plane.
			return b, false
		}

		// Places may have been swapped: the search begins anew.
		i = -1
	}
	return b, true
}

// turn replaces a corner by a point on the other side of the other three, the first that the plane
// meets when it turns about them.
func (d *Interpolator) turn(b basis, corner int) (basis, bool) {
	enter, h, rate := -1, height{}, 1
	for p := range d.n {
		if r := -d.part(b.at, corner, d.points[p]); r > 0 {
			if a := d.above(b, p); enter < 0 || lessRatio(a, r, h, rate) {
				enter, h, rate = p, a, r
			}
		}
	}
	if enter < 0 {
		return b, false
	}
	b.at[corner] = enter
	return d.basis(b.at), true
}

// cell returns all points on the sphere of a cell, in order.
func (d *Interpolator) cell(b basis) []int {
	var cell []int
	for p := range d.n {
		if d.above(b, p) == (height{}) {
			cell = append(cell, p)
		}
	}
	slices.SortFunc(cell, func(a, b int) int { return d.order[a] - d.order[b] })
	return cell
}

// faceAt returns the face of a cell that q lies on; nil if it is inside, or on an edge, where faces
// agree.
func (d *Interpolator) faceAt(cell []int, q Point) (found []int) {
	for i := range cell {
		for j := range i {
			for k := range j {
				of := [3]int{cell[k], cell[j], cell[i]}
				if det(d.points[of[0]], d.points[of[1]], d.points[of[2]], q) != 0 {
					continue
				}
				face, ok := d.face(cell, of)
				if !ok || [3]int(face[:3]) != of {
					continue
				}
				if found != nil {
					return nil
				}
				found = face
			}
		}
	}
	return found
}

// beyond returns the cell on the other side of a face; false if there is none.
func (d *Interpolator) beyond(cell, face []int) ([]int, bool) {
	for _, p := range cell {
		if at := [4]int{p, face[0], face[1], face[2]}; d.volume(at) != 0 {
			b := d.basis(at)
			b, ok := d.turn(b, slices.Index(b.at[:], p))
			return d.cell(b), ok
		}
	}
	return nil, false
}

// basis computes the plane through four points, which it orders for a positive volume.
func (d *Interpolator) basis(at [4]int) basis {
	b := basis{at: at, volume: d.volume(at)}
	if b.volume < 0 {
		b.at[0], b.at[1] = b.at[1], b.at[0]
		b.volume = -b.volume
	}
	a := d.points[b.at[0]]
	x, y, z := sub(d.points[b.at[1]], a), sub(d.points[b.at[2]], a), sub(d.points[b.at[3]], a)
	yz, zx, xy := cross(y, z), cross(z, x), cross(x, y)
	h0 := d.height(b.at[0])
	for part := range b.slope {
		dx, dy, dz := d.height(b.at[1])[part]-h0[part], d.height(b.at[2])[part]-h0[part], d.height(b.at[3])[part]-h0[part]
		for k := range a {
			b.slope[part][k] = yz[k]*dx + zx[k]*dy + xy[k]*dz
		}
		b.offset[part] = h0[part] * b.volume
	}
	return b
}

// above is how far a point's lifted position is above the plane, times the basis's volume.
func (d *Interpolator) above(b basis, p int) height {
	h, v := d.height(p), sub(d.points[p], d.points[b.at[0]])
	return height{h[0]*b.volume - b.offset[0] - dot(b.slope[0], v), h[1]*b.volume - b.offset[1] - dot(b.slope[1], v)}
}

func (d *Interpolator) height(p int) height {
	if p >= d.n {
		return height{1, 0}
	}
	return height{0, d.lift[p]}
}

// split yields the tetrahedra of a cell, given in order: its last point is the apex of all, and each
// face without the apex is cut into triangles.
func (d *Interpolator) split(cell []int) func(yield func([4]int) bool) {
	return func(yield func([4]int) bool) {
		apex := cell[len(cell)-1]
		for _, of := range triples(cell[:len(cell)-1]) {
			face, ok := d.face(cell, of)

			// Several triples name a face: the one of its first three points counts.
			if !ok || slices.Contains(face, apex) || [3]int(face[:3]) != of {
				continue
			}
			for _, t := range d.triangles(face) {
				if !yield([4]int{apex, t[0], t[1], t[2]}) {
					return
				}
			}
		}
	}
}

// triples are each three of the points, in their order.
func triples(points []int) (all [][3]int) {
	for i := range points {
		for j := range i {
			for k := range j {
				all = append(all, [3]int{points[k], points[j], points[i]})
			}
		}
	}
	return all
}

// face returns those of a cell's points that are in the plane of three of them, in the cell's
// order; ok is false where that is no face of the cell, for it has points on both sides.
func (d *Interpolator) face(cell []int, of [3]int) (face []int, ok bool) {
	a, b, c := d.points[of[0]], d.points[of[1]], d.points[of[2]]
	side := 0
	for _, p := range cell {
		switch s := det(a, b, c, d.points[p]); {
		case s == 0:
			face = append(face, p)
		case side == 0:
			side = s
		case s < 0 != (side < 0):
			return nil, false
		}
	}
	return face, true
}

// triangles splits a face, whose points are on a circle: the first three are a triangle, and each
// further one makes another with the edge that it lies beyond.
func (d *Interpolator) triangles(face []int) [][3]int {
	ring := slices.Clone(face[:3])
	out := [][3]int{{face[0], face[1], face[2]}}
	normal := cross(sub(d.points[ring[1]], d.points[ring[0]]), sub(d.points[ring[2]], d.points[ring[0]]))
	for _, p := range face[3:] {
		for i := range ring {
			a, b := ring[i], ring[(i+1)%len(ring)]
			if dot(cross(sub(d.points[b], d.points[a]), sub(d.points[p], d.points[a])), normal) < 0 {
				out = append(out, [3]int{a, b, p})
				ring = slices.Insert(ring, i+1, p)
				break
			}
		}
	}
	return out
}
