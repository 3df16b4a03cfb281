// Package amxtest runs tests of code for Intel's tile unit (AMX) on machines that have none, with
// the real machine code.
//
// Run starts the test's own binary once more, for that test alone, and traces it (ptrace). The
// instructions of the tile unit, which this CPU does not know, raise SIGILL; the tracer computes
// what they do over the registers and the memory of the traced process, with tiles that it keeps
// for each thread, and lets the thread go on behind them. What the program asks about the machine
// is answered as on one with AMX: by the feature flags of package golang.org/x/sys/cpu, and by the
// kernel's permission for tile data. All other signals pass.
//
//	func TestTiles(t *testing.T) {
//		amxtest.Run(t, f32.Active() == f32.AMX, f32.FromEnv, func(t *testing.T) { ... })
//	}
//
// RunRefused runs a test in a traced process whose kernel refuses the tile unit that the CPU has.
//
// It works on Linux on amd64 with AVX512_BF16, where processes may trace their children; elsewhere
// the test is skipped with the reason.
package amxtest

import (
	"os"
	"testing"
)

// traced is set in the environment of a traced process.
const traced = "PARAGON_AMXTEST_TRACED"

// Run calls f where there is a tile unit: here if native, else in a traced copy of this process
// with PARAGON_CPU=amx, whose failures become t's. detect is the function that looks at the CPU's
// features first; the traced process must call it while it begins, and the compiler must not inline
// it.
func Run(t *testing.T, native bool, detect any, f func(t *testing.T)) {
	t.Helper()
	if native || os.Getenv(traced) != "" {
		f(t)
		return
	}
	runTraced(t, detect, true)
}

// RunRefused calls f in a traced copy of this process, on a CPU with a tile unit and a kernel that
// answers the request for tile data with EPERM. PARAGON_CPU is not set. f's failures become t's.
func RunRefused(t *testing.T, detect any, f func(t *testing.T)) {
	t.Helper()
	if os.Getenv(traced) != "" {
		f(t)
		return
	}
	runTraced(t, detect, false)
}
