//go:build race

package conv

// slow: the race detector slows plain Go loops some tenfold, so that tests take fewer shapes.
const slow = true
