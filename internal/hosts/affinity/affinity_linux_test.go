package affinity

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestAProcessInheritsTheProcessorsItIsStartedOn(t *testing.T) {
	own := Own()
	if len(own) == 0 {
		t.Fatal("no processor")
	}
	for _, cpus := range [][]int{own[len(own)-1:], nil} {
		cmd := exec.Command("nproc")
		var out strings.Builder
		cmd.Env = []string{"LC_ALL=C"} // nproc reads OMP_NUM_THREADS, too
		cmd.Stdout = &out
		if err := Start(cpus, cmd.Start); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out.String()); len(cpus) == 1 && got != "1" {
			t.Errorf("started on %v: nproc says %s, want 1", cpus, got)
		}
		if now := Own(); !slices.Equal(now, own) {
			t.Errorf("after the start this process has processors %v, want %v", now, own)
		}
	}
	if err := Start([]int{1023}, func() error { t.Error("it was started"); return nil }); err == nil {
		t.Error("a processor that does not exist: no error")
	}
}
