package cpu

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// advised reports whether the mapping that holds p is advised to have huge pages.
func advised(t *testing.T, p unsafe.Pointer) bool {
	t.Helper()
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer smaps.Close()
	within := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			within = from <= uintptr(p) && uintptr(p) < to
		} else if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && within {
			return strings.Contains(flags+" ", " hg ")
		}
	}
	return false
}

// The system is asked for huge pages in the middle of a large arena.
func TestLargeArenasAskForHugePages(t *testing.T) {
	probe, err := unix.Mmap(-1, 0, 2*hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(probe)
	if unix.Madvise(probe, unix.MADV_HUGEPAGE) != nil || !advised(t, unsafe.Pointer(&probe[hugePage])) {
		t.Skip("this system has no huge pages, or does not show that they were asked for (an emulator does not)")
	}
	x := make([]float32, 4*hugePage/4)
	adviseHugePages(x)
	if !advised(t, unsafe.Pointer(&x[len(x)/2])) {
		t.Error("an arena's middle is not advised to have huge pages")
	}
}

func TestSmallArenasAreLeftAlone(t *testing.T) {
	for _, n := range []int{0, 1, hugePage/4 - 1} {
		// The memory holds no whole huge page, and this must not panic.
		adviseHugePages(make([]float32, n))
	}
}
