// Package delaunay interpolates linearly in a Delaunay triangulation of points with three whole
// coordinates.
//
// A cell of the triangulation is the convex hull of points on a sphere that holds no other point.
// Lifted to x²+y²+z² as a fourth coordinate, the points have a lower hull, and its facet above a
// position is the cell that the position lies in. That facet is the solution of a linear program
// with four variables, which a simplex method with whole numbers solves exactly: no triangulation
// is ever built.
//
// Measurements lie on grids, so most cells have six or eight corners on one sphere, and a
// triangulation is free to split them. The interpolated value depends on the split. An Interpolator
// splits as Qhull does, given the order in which Qhull added the points: it connects the cell's
// last point with each face that does not have it, and splits a face in the order in which its
// points came. So two cells may split the face between them along different diagonals.
package delaunay

import (
	"fmt"
	"math"
	"slices"
)

// A Point is a position.
type Point [3]int

// An Interpolator holds points and what was measured at each.
type Interpolator struct {
	// points end with the four corners of a tetrahedron around the others.
	points []Point

	// lift has a number for each point; those of the corners are not used.
	lift []int

	order []int
	other map[Point]bool

	// n is the number of points that are not corners.
	n int
}

// New returns an interpolator. Points must differ. order has a number for each point, the greatest
// for the point that a cell is split from; nil takes the points' own order. A position on a face
// between two cells belongs to the one that has its last point there, those in other to the other
// one.
func New(points []Point, order []int, other []Point) (*Interpolator, error) {
	n := len(points)
	if n < 4 {
		return nil, fmt.Errorf("delaunay: got %d points, want at least 4", n)
	}
	if order == nil {
		order = make([]int, n)
		for i := range order {
			order[i] = i
		}
	}
	if len(order) != n {
		return nil, fmt.Errorf("delaunay: got %d points and an order of %d", n, len(order))
	}
	low, high := points[0], points[0]
	for _, p := range points {
		for k := range p {
			low[k], high[k] = min(low[k], p[k]), max(high[k], p[k])
		}
	}
	// No tetrahedron is larger than the one around all points. What is computed below are sums
	// of at most five such volumes times a lift; they must fit, while what overflows on the way
	// comes back.
	size, lift := 5.0, 0.0
	for k := range low {
		width := float64(high[k]-low[k]) + 2
		size *= 3 * width
		lift += width * width
	}
	if size*lift > math.MaxInt64 {
		return nil, fmt.Errorf("delaunay: points from %v to %v are too far apart for exact arithmetic with 64 bits", low, high)
	}
	d := &Interpolator{points: make([]Point, 0, n+4), lift: make([]int, n), order: order, other: map[Point]bool{}, n: n}
	for _, p := range other {
		d.other[p] = true
	}
	seen := make(map[Point]bool, n)
	for i, p := range points {
		if seen[p] {
			return nil, fmt.Errorf("delaunay: point %v comes twice", p)
		}
		seen[p] = true
		d.points = append(d.points, p)
		for k := range p {
			d.lift[i] += (p[k] - low[k]) * (p[k] - low[k])
		}
	}
	corner := Point{low[0] - 1, low[1] - 1, low[2] - 1}
	d.points = append(d.points, corner)
	for k := range corner {
		c := corner
		c[k] += 3 * (high[k] - low[k] + 2)
		d.points = append(d.points, c)
	}
	return d, nil
}

// At returns the points that the value at q is a mean of and their weights, which add up to 1. ok
// is false outside of the points' convex hull.
func (d *Interpolator) At(q Point) (corners [4]int, weights [4]float64, ok bool) {
	plane, ok := d.facet(q)
	if !ok {
		return corners, weights, false
	}
	cell := d.cell(plane)
	if face := d.faceAt(cell, q); len(face) > 3 && slices.Contains(face, cell[len(cell)-1]) == d.other[q] {
		if next, ok := d.beyond(cell, face); ok {
			cell = next
		}
	}
	for tetra := range d.split(cell) {
		if w, in := d.weights(tetra, q); in {
			return tetra, w, true
		}
	}
	panic(fmt.Sprintf("delaunay: %v is in none of the tetrahedra of its cell", q))
}

// weights are the barycentric coordinates of q; in says that none is negative. A flat tetrahedron
// has no inside.
func (d *Interpolator) weights(t [4]int, q Point) (w [4]float64, in bool) {
	v := d.volume(t)
	if v == 0 {
		return w, false
	}
	for i := range t {
		part := d.part(t, i, q)
		if part < 0 != (v < 0) && part != 0 {
			return w, false
		}
		w[i] = float64(part) / float64(v)
	}
	return w, true
}

// volume is six times the signed volume of a tetrahedron.
func (d *Interpolator) volume(t [4]int) int {
	return det(d.points[t[0]], d.points[t[1]], d.points[t[2]], d.points[t[3]])
}

// part is the volume of a tetrahedron whose corner i is moved to q.
func (d *Interpolator) part(t [4]int, i int, q Point) int {
	p := [4]Point{d.points[t[0]], d.points[t[1]], d.points[t[2]], d.points[t[3]]}
	p[i] = q
	return det(p[0], p[1], p[2], p[3])
}

func det(a, b, c, e Point) int { return dot(cross(sub(b, a), sub(c, a)), sub(e, a)) }

func sub(a, b Point) Point { return Point{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

func dot(a, b Point) int { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func cross(a, b Point) Point {
	return Point{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}
