package dl

// EncodedVersion takes apart the number that a library says its version is. Each has its way of
// writing one, and some changed theirs.
func EncodedVersion(name Name, n int) Version {
	if n <= 0 {
		return Version{}
	}
	switch {
	case name == CUDA: // 13020 is 13.2
		return Version{n / 1000, n % 1000 / 10, 0}
	case name == CuDNN && n < 90000, name == NCCL && n < 10000, (name == CuBLASLt || name == CuBLAS) && n < 100000:
		return decimal(n, 1000, 100) // 8902 is 8.9.2
	default:
		return decimal(n, 10000, 100) // 91501 is 9.15.1
	}
}
