package cpu

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

func TestEveryKindOfOpHasAKernel(t *testing.T) {
	p := pool.New(1)
	defer p.Close()
	all := families(newMemory(&shared{}, nil, &plan.Host{}), threads{p}, &examples{plan: &plan.Plan{}}, &runningStates{}, Config{Pool: p})
	for kind := plan.Generic; !strings.HasPrefix(kind.String(), "Kind("); kind++ {
		if all[kind] == nil {
			t.Errorf("%v has no kernel", kind)
		}
	}
	if _, err := all.kernel(&plan.Op{Kind: 255}); err == nil {
		t.Error("an op of an unknown kind got a kernel")
	}
}
