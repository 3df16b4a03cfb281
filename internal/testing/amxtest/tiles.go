package amxtest

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	maxRows  = 16
	rowBytes = 64
)

// A unit is the tile registers of one thread.
type unit struct {
	configured bool
	config     [64]byte
	tiles      [8][maxRows][rowBytes]byte
}

// rows and bytes of a row of register r, as configured.
func (u *unit) rows(r int) int     { return int(u.config[48+r]) }
func (u *unit) rowBytes(r int) int { return int(binary.LittleEndian.Uint16(u.config[16+2*r:])) }

// configure is LDTILECFG. An error is what raises a fault on a CPU.
func (u *unit) configure(c [64]byte) error {
	if c[0] != 1 {
		return fmt.Errorf("palette %d, want 1", c[0])
	}
	next := unit{configured: true, config: c}
	for r := range next.tiles {
		if next.rows(r) > maxRows || next.rowBytes(r) > rowBytes {
			return fmt.Errorf("register %d: %d rows of %d bytes", r, next.rows(r), next.rowBytes(r))
		}
	}
	*u = next
	return nil
}

// dotBFloat16 is TDPBF16PS: dst += a·b, as Intel's manual has it: products of even and of odd
// numbers are summed apart and then added. Subnormal numbers are zeros.
func (u *unit) dotBFloat16(dst, a, b int) error {
	if !u.configured {
		return fmt.Errorf("the tile registers are not configured")
	}
	n := u.rowBytes(dst) / 4
	pairs := u.rowBytes(a) / 4
	if dst == a || dst == b || a == b || u.rows(a) != u.rows(dst) || u.rows(b) != pairs || u.rowBytes(b) != u.rowBytes(dst) {
		return fmt.Errorf("registers %d, %d and %d do not fit each other", dst, a, b)
	}
	half := func(r, row, i int) float32 {
		return flush(math.Float32frombits(uint32(binary.LittleEndian.Uint16(u.tiles[r][row][2*i:])) << 16))
	}
	for m := range u.rows(dst) {
		for j := range n {
			var even, odd float32
			for k := range pairs {
				even = fma(half(a, m, 2*k), half(b, k, 2*j), even)
				odd = fma(half(a, m, 2*k+1), half(b, k, 2*j+1), odd)
			}
			to := u.tiles[dst][m][4*j:]
			sum := flush(math.Float32frombits(binary.LittleEndian.Uint32(to))) + flush(even+odd)
			binary.LittleEndian.PutUint32(to, math.Float32bits(flush(sum)))
		}
	}
	return nil
}

// fma is a·b + c rounded once: the product of two bfloat16 has 16 bits and is exact.
func fma(a, b, c float32) float32 { return flush(float32(a*b) + c) }

func flush(v float32) float32 {
	if v != 0 && math.Abs(float64(v)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(v)))
	}
	return v
}
