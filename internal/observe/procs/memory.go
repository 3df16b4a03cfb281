package procs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// A Memory reads how much memory this process uses, often: without an allocation. One goroutine at
// a time uses it.
type Memory struct {
	statm *os.File
	buf   [128]byte
	page  int64
}

// OpenMemory is an error where the system does not tell.
func OpenMemory() (*Memory, error) {
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return nil, err
	}
	return &Memory{statm: f, page: int64(os.Getpagesize())}, nil
}

// Resident is the bytes of memory that the system counts as the process's, shared memory included.
func (m *Memory) Resident() (int64, error) {
	n, err := m.statm.ReadAt(m.buf[:], 0) // io.EOF behind the one line
	_, rest, _ := bytes.Cut(m.buf[:n], []byte(" "))
	digits, _, ok := bytes.Cut(rest, []byte(" "))
	pages := int64(0)
	for _, c := range digits {
		ok = ok && '0' <= c && c <= '9'
		pages = 10*pages + int64(c-'0')
	}
	if !ok || len(digits) == 0 || len(digits) > 15 {
		return 0, fmt.Errorf("procs: /proc/self/statm: got %s (%v), want pages in its second word", strconv.Quote(string(m.buf[:n])), err) //nolint:errorlint // nil or io.EOF
	}
	return pages * m.page, nil
}

// Close closes it.
func (m *Memory) Close() error { return m.statm.Close() }
