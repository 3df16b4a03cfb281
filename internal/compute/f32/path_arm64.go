package f32

// Every arm64 CPU that Go runs on has NEON.
func hasPath(p Path) bool { return p == Portable || p == NEON }

func kernelsFor(p Path) *kernelSet {
	if p == NEON {
		return &setNEON
	}
	return &portable
}

var setNEON = assembled()
