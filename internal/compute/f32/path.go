package f32

import (
	"fmt"
	"os"
	"strings"
)

// A Path is one implementation of all functions of this package.
type Path uint8

// The paths, slowest first.
const (
	Portable Path = iota
	AVX2          // AVX2, FMA and F16C

	// AVX512 has AVX-512 F, BW, DQ, VL, and all of AVX2's.
	AVX512

	// AMX is AVX512 with AVX512_BF16, and products of bfloat16 by the tile unit.
	AMX

	// NEON is arm64's vectors of 128 bits, with fused multiply-add.
	NEON
)

var pathNames = [...]string{"portable", "avx2", "avx512", "amx", "neon"}

func (p Path) String() string {
	if int(p) < len(pathNames) {
		return pathNames[p]
	}
	return fmt.Sprintf("Path(%d)", p)
}

// Available lists the paths that this machine can run, slowest first. The first is always Portable.
func Available() []Path {
	paths := []Path{Portable}
	for p := Portable + 1; int(p) < len(pathNames); p++ {
		if hasPath(p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// Active is the path in use: the best available one, or what PARAGON_CPU lowered it to when the
// program started.
func Active() Path { return active }

// FromEnv is the choice of path: the best available, or the one that the environment variable
// PARAGON_CPU names. A name that is unknown or that this machine cannot run is an error, and the
// path returned with it is the best available one. After a comma PARAGON_CPU may name how bfloat16
// is multiplied: see BFloat16Products. The package itself calls it once, when the program starts,
// and goes on with that path; what computes or opens a store calls it to refuse a name that is an
// error.
//
//go:noinline
func FromEnv() (Path, error) {
	p, _, _, err := choice()
	return p, err
}

// choice is what PARAGON_CPU says: named if it says how bfloat16 is multiplied.
func choice() (p Path, how Products, named bool, err error) {
	paths := Available()
	best := paths[len(paths)-1]
	env := os.Getenv("PARAGON_CPU")
	name, products, named := strings.Cut(env, ",")
	p = best
	if name != "" {
		p, err = parsePath(name, best)
	}
	if err == nil && named {
		how, err = parseProducts(p, products)
	}
	if err != nil {
		return best, 0, false, fmt.Errorf("f32: PARAGON_CPU=%q: %w", env, err)
	}
	return p, how, named, nil
}

// parsePath is the path of this name; best is the best that this machine has.
func parsePath(name string, best Path) (Path, error) {
	for p, s := range pathNames {
		if !strings.EqualFold(s, name) {
			continue
		}
		if Path(p) == Portable || hasPath(Path(p)) {
			return Path(p), nil
		}
		if err := tilesRefused(); err != nil && Path(p) == AMX {
			return best, fmt.Errorf("the system refuses the CPU's tile unit: %w", err)
		}
		return best, fmt.Errorf("this machine has no %s; the best it has is %s", s, best)
	}
	return best, fmt.Errorf("no such path; want %s", strings.Join(pathNames[:], ", "))
}

// active and kernels are set once, before main: a CPU is a property of the machine, not of a job.
var (
	active, _ = FromEnv()
	kernels   = kernelsFor(active)
)

// A kernelSet is the loops of one path. Lengths have been checked.
type kernelSet struct {
	add    func(dst, a, b []float32)
	mul    func(dst, a, b []float32)
	axpy   func(dst []float32, alpha float32, x []float32)
	axpby  func(dst []float32, alpha float32, x []float32, beta float32)
	scale  func(dst []float32, alpha float32, x []float32)
	divide func(dst []float32, by float32, x []float32)
	sum    func(x []float32) float32
	dot    func(x, y []float32) float32
	max    func(x []float32) float32

	// sumTo and meanTo are nil if there are none.
	sumTo  func(dsts, srcs [][]float32) int
	meanTo func(dsts, srcs [][]float32, by float32) int

	relu     func(dst, x []float32)
	reluGrad func(dx, dy, y []float32)
	maxWhich func(out []float32, chosen []uint8, x []float32, which uint8)

	toFloat16    func(dst []uint16, x []float32)
	fromFloat16  func(dst []float32, x []uint16)
	toBFloat16   func(dst []uint16, x []float32)
	fromBFloat16 func(dst []float32, x []uint16)

	encode2Bit     func(code []byte, residual, grad []float32, threshold float32)
	addDecoded2Bit func(dst []float32, code []byte, threshold float32)
	encode1Bit     func(code []byte, residual, grad []float32, threshold float32)
	addDecoded1Bit func(dst []float32, code []byte)
	collect        func(found []uint32, x []float32, low uint32) (done, count int)

	tile Tile
}
