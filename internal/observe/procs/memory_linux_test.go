package procs

import (
	"os"
	"runtime"
	"testing"
)

// Memory tells what UsageOf tells, and grows with what is used.
func TestMemoryIsWhatTheSystemCounts(t *testing.T) {
	m, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.Resident()
	if err != nil {
		t.Fatal(err)
	}
	const more = 64 << 20
	block := make([]byte, more)
	for i := 0; i < more; i += 4096 {
		block[i] = 1
	}
	after, err := m.Resident()
	if err != nil || after < before+more/2 {
		t.Errorf("%d bytes before and %d, %v with %d more, want more", before, after, err, more)
	}
	usage, err := UsageOf(os.Getpid())
	if resident := int64(usage.Resident) << 10; err != nil || after < resident*3/4 || after > resident*4/3 {
		t.Errorf("%d bytes, and UsageOf tells %d, %v", after, resident, err)
	}
	runtime.KeepAlive(block)
	if n := testing.AllocsPerRun(100, func() { _, err = m.Resident() }); n != 0 || err != nil {
		t.Errorf("a reading allocates %v times, %v, want 0", n, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Resident(); err == nil {
		t.Error("no error after Close")
	}
}
