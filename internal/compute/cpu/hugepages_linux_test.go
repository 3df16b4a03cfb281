package cpu

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// The memory of a large arena is advised to have large pages, all but what is beside whole pages.
func TestLargeArenasAskForHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this kernel has no transparent huge pages")
	}
	x := make([]float32, 4*hugePage/4)
	adviseHugePages(x)
	middle := uintptr(unsafe.Pointer(&x[len(x)/2]))
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer smaps.Close()
	within := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			within = from <= middle && middle < to
		} else if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && within {
			if !strings.Contains(flags+" ", " hg ") {
				t.Errorf("the mapping of an arena's middle has flags %q, want hg among them", flags)
			}
			return
		}
	}
	t.Error("no mapping has the arena's middle")
}

func TestSmallArenasAreLeftAlone(t *testing.T) {
	for _, n := range []int{0, 1, hugePage/4 - 1} {
		adviseHugePages(make([]float32, n)) // no whole page may be within: nothing to do, and nothing to panic for
	}
}
