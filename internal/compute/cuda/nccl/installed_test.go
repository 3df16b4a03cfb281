package nccl

import (
	"errors"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/installed"
)

// The real library has all functions and a version, and without a GPU says so, soon.
func TestTheInstalledLibraryIsAsTheBindingHasIt(t *testing.T) {
	installed.Run(t, func(libs map[dl.Name]*dl.Library) {
		l, err := Open(libs[dl.NCCL])
		if err != nil {
			t.Fatal(err)
		}
		if v := l.Version(); v.Major != 2 || v.Minor < 10 || v.Minor > 99 || v.Compare(libs[dl.NCCL].Version()) != 0 {
			t.Errorf("version %v, want 2.10 or later", v)
		}
		c := &Clique{l: l, mem: new(memory)}
		for code, want := range map[int32]string{success: "no error", 1: "unhandled cuda error (run with NCCL_DEBUG=INFO for details)", 4: "invalid argument (run with NCCL_DEBUG=WARN for details)",
			inProgress: "NCCL operation in progress"} {
			if e := c.newError("a call", code); e.Text != want {
				t.Errorf("code %d: got %q, want %q", code, e.Text, want)
			}
		}
		clique, err := l.NewClique([]int{0})
		if err == nil {
			t.Logf("a clique of one GPU: %v", clique.Close())
			return
		}
		t.Log(err)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code == success || e.Text == "" {
			t.Errorf("got %v, want an answer of the library", err)
		}
	}, dl.NCCL)
}
