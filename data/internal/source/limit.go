package source

import "fmt"

// MaxExample is the largest number of bytes that one example may have: the limit of a part of a
// RecordIO file.
const MaxExample = 1<<29 - 1

// Room returns n bytes in buf's memory if they fit, else in new memory, with some more for a longer
// example after it. It refuses lengths that no example has, so that a damaged length takes no
// memory.
func Room(buf []byte, n int64) ([]byte, error) {
	if n < 0 || n > MaxExample {
		return nil, fmt.Errorf("it has %d bytes, want at most %d", n, int64(MaxExample))
	}
	if int64(cap(buf)) < n {
		return make([]byte, n, n+n/4), nil
	}
	return buf[:n], nil
}

// CheckIndex is an error if a source of n examples has none of number i.
func CheckIndex(i, n int) error {
	if i < 0 || i >= n {
		return fmt.Errorf("example %d: want 0 to %d", i, n-1)
	}
	return nil
}
