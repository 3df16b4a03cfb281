package f32

import (
	"sync"

	"golang.org/x/sys/cpu"
)

// tileUnit reports whether the CPU multiplies tiles of bfloat16 and the system lets this process do
// so; refused says why a system does not let a process use what the CPU has.
var tileUnit = sync.OnceValues(func() (has bool, refused error) {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16 || !cpu.X86.HasAVX512BF16 {
		return false, nil
	}
	return requestTiles()
})

// tilesRefused is why the system does not let this process use the tile unit that the CPU has, or
// nil.
func tilesRefused() error {
	_, err := tileUnit()
	return err
}

// tileConfig is the configuration of the tile registers: palette 1, eight registers of 16 rows of
// 64 bytes.
var tileConfig = func() (c [64]byte) {
	// The constants say where the sizes lie.
	const registers, rowBytes, rows = 8, 16, 48
	c[0] = 1
	for i := range registers {
		c[rowBytes+2*i] = 64
		c[rows+i] = UnitRows
	}
	return c
}()

// blocks is Blocks by the tile unit. Tiles belong to the thread, and a goroutine may change its
// thread between any two calls but not within one: so each call configures the registers, which
// takes some 30 ns with their release at the end. It cannot be preempted; callers keep calls below
// some 100 µs, about 4,000 steps of all blocks and panels.
func blocks(a *BlockArgs) { blocksAMX(a, &tileConfig) }

// blocksAMX is Blocks; there is at least one block, panel, segment and step.
//
//go:noescape
func blocksAMX(a *BlockArgs, config *[64]byte)
