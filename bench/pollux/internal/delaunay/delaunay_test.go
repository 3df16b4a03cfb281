package delaunay

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomPoints are distinct; from a small box many are on common spheres and planes.
func randomPoints(rng *rand.Rand, n, width int) []Point {
	seen := map[Point]bool{}
	var points []Point
	for len(points) < n {
		p := Point{rng.IntN(width), rng.IntN(width), rng.IntN(width)}
		if !seen[p] {
			seen[p] = true
			points = append(points, p)
		}
	}
	return points
}

// inSphere says whether q is inside the sphere through four points: the sign of the determinant of
// lifted differences.
func inSphere(t [4]Point, q Point) bool {
	var m [4][4]*big.Int
	for i, p := range t {
		sum := 0
		for k := range p {
			m[i][k] = big.NewInt(int64(p[k] - q[k]))
			sum += (p[k] - q[k]) * (p[k] - q[k])
		}
		m[i][3] = big.NewInt(int64(sum))
	}
	minor := func(skip int) *big.Int {
		var r [3][4]*big.Int
		at := 0
		for i := range m {
			if i != skip {
				r[at] = m[i]
				at++
			}
		}
		sum := new(big.Int)
		for _, c := range [6][4]int{{0, 1, 2, 1}, {1, 2, 0, 1}, {2, 0, 1, 1}, {0, 2, 1, -1}, {1, 0, 2, -1}, {2, 1, 0, -1}} {
			x := new(big.Int).Mul(r[0][c[0]], r[1][c[1]])
			sum.Add(sum, x.Mul(x, new(big.Int).Mul(r[2][c[2]], big.NewInt(int64(c[3])))))
		}
		return sum
	}
	d := new(big.Int)
	for i := range m {
		x := new(big.Int).Mul(m[i][3], minor(i))
		if i%2 == 0 {
			x.Neg(x)
		}
		d.Add(d, x)
	}
	return d.Sign()*sign(det(t[0], t[1], t[2], t[3])) < 0
}

func sign(x int) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

func TestCellsAreEmptySpheresAroundTheirPositions(t *testing.T) {
	inside := 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		width := []int{4, 12, 900}[seed%3]
		points := randomPoints(rng, 5+rng.IntN(40), width)
		d, err := New(points, rng.Perm(len(points)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			q := Point{rng.IntN(width), rng.IntN(width), rng.IntN(width)}
			corners, weights, ok := d.At(q)
			if !ok {
				continue
			}
			inside++
			var tetra [4]Point
			var sum float64
			var at [3]float64
			for i, c := range corners {
				tetra[i] = points[c]
				sum += weights[i]
				for k := range at {
					at[k] += weights[i] * float64(points[c][k])
				}
				if weights[i] < 0 {
					t.Fatalf("seed %d: weights at %v are %v, want none negative", seed, q, weights)
				}
			}
			for k := range at {
				if math.Abs(sum-1) > 1e-9 || math.Abs(at[k]-float64(q[k])) > 1e-6 {
					t.Fatalf("seed %d: weights at %v add up to %v and have their centre at %v", seed, q, sum, at)
				}
			}
			for _, p := range points {
				if inSphere(tetra, p) {
					t.Fatalf("seed %d: %v is in the sphere through %v, which %v got", seed, p, tetra, q)
				}
			}
		}
	}
	if inside < 100 {
		t.Fatalf("only %d positions were inside", inside)
	}
}

// The values at the points themselves are theirs, and nothing is known outside.
func TestPointsKeepTheirValues(t *testing.T) {
	points := randomPoints(rand.New(rand.NewPCG(1, 1)), 30, 6)
	d, err := New(points, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range points {
		corners, weights, ok := d.At(p)
		if !ok {
			t.Fatalf("%v is outside", p)
		}
		for k, c := range corners {
			if want := map[bool]float64{true: 1}[c == i]; weights[k] != want {
				t.Errorf("at %v point %v has weight %v, want %v", p, points[c], weights[k], want)
			}
		}
	}
	if _, _, ok := d.At(Point{-1, 0, 0}); ok {
		t.Error("a position outside has a value")
	}
}

// A box is split from its last point; a face without it along the diagonal that its own last point
// is not on.
func TestBoxesAreSplitInOrder(t *testing.T) {
	var points []Point
	for i := range 8 {
		points = append(points, Point{4 * (i & 1), 2 * (i & 2), i & 4})
	}
	for _, c := range []struct {
		order []int

		// want is the diagonal of the face x = 0 when the last point is at x = 4.
		want [2]Point
	}{
		// Of the face's points the last is {0, 4, 4}.
		{[]int{0, 4, 1, 5, 2, 6, 3, 7}, [2]Point{{0, 4, 0}, {0, 0, 4}}},

		// The last is {0, 0, 4}.
		{[]int{0, 4, 1, 5, 3, 6, 2, 7}, [2]Point{{0, 0, 0}, {0, 4, 4}}},
	} {
		d, err := New(points, c.order, nil)
		if err != nil {
			t.Fatal(err)
		}
		// Close to the middle of the face, between its plane and the last point.
		corners, _, ok := d.At(Point{1, 2, 2})
		found := 0
		for _, p := range corners {
			if points[p] == c.want[0] || points[p] == c.want[1] {
				found++
			}
		}
		if !ok || found != 2 {
			t.Errorf("order %v: the position got corners %v, want %v among them", c.order, corners, c.want)
		}
	}
}

// Two neighbouring boxes split their common face along different diagonals. A position on the face
// belongs to the box whose last point is on it, unless the caller says otherwise.
func TestFacesBelongToOneCell(t *testing.T) {
	var points []Point
	for x := 0; x <= 8; x += 4 {
		for i := range 4 {
			points = append(points, Point{x, 4 * (i & 1), 2 * (i & 2)})
		}
	}

	// The left box's last point is {4, 4, 4}, on the face; the right one's is not.
	order := []int{0, 1, 2, 3, 4, 5, 6, 10, 7, 8, 9, 11}
	q := Point{4, 2, 1}
	diagonal := func(other []Point) (onLast bool) {
		d, err := New(points, order, other)
		if err != nil {
			t.Fatal(err)
		}
		corners, weights, ok := d.At(q)
		if !ok {
			t.Fatalf("%v is outside", q)
		}
		for i, c := range corners {
			onLast = onLast || points[c] == Point{4, 4, 4} && weights[i] > 0
		}
		return onLast
	}
	if !diagonal(nil) || diagonal([]Point{q}) {
		t.Errorf("the last point of the face counts: %t, and told otherwise: %t; want true and false", diagonal(nil), diagonal([]Point{q}))
	}
}

func TestBadPointsAreRefused(t *testing.T) {
	four := []Point{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
	for _, c := range []struct {
		points []Point
		order  []int
		want   string
	}{
		{four[:3], nil, "got 3 points, want at least 4"},
		{four, []int{1}, "got 4 points and an order of 1"},
		{append(four[:4:4], Point{0, 1, 0}), nil, "point [0 1 0] comes twice"},
		{append(four[:4:4], Point{1 << 20, 1 << 20, 1 << 20}), nil, "too far apart"},
	} {
		if _, err := New(c.points, c.order, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want %q", c.points, err, c.want)
		}
	}
	flat, err := New([]Point{{0, 0, 0}, {4, 0, 0}, {0, 4, 0}, {4, 4, 0}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := flat.At(Point{1, 1, 0}); ok {
		t.Error("points in one plane have a cell")
	}
}
