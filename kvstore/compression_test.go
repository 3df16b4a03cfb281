package kvstore_test

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// Codes of one size under an optimizer that divides by a second moment are warned of, once,
// whichever of the two is set first.
func TestCodesOfOneSizeUnderAdaptiveOptimizersAreWarnedOf(t *testing.T) {
	for _, name := range optim.Names() {
		for _, c := range []kvstore.Compression{{}, {Type: "fp16"}, {Type: "bf16"}, {Type: "2bit"}, {Type: "2bit", Scale: 1}, {Type: "1bit"}, {Type: "topk"}} {
			kind := c.Type
			quantised := c.Scale == 0 && (kind == "2bit" || kind == "1bit")
			adaptive := !strings.Contains("sgd nag lars test", name)
			for _, first := range []string{"compression", "optimizer"} {
				kv, log := storeWithLog(t, "dist_sync")
				if first == "compression" {
					must(kv.SetCompression(t.Context(), c))
				}
				must(kv.SetOptimizer(t.Context(), optim.Config{Name: name}))
				must(kv.SetCompression(t.Context(), c))
				must(kv.SetOptimizer(t.Context(), optim.Config{Name: name}))
				want := 0
				if quantised && adaptive {
					want = 1
				}
				if got := strings.Count(log.String(), "is likely to diverge"); got != want {
					t.Errorf("%s with %s, %s first: got %d lines, want %d:\n%s", kind, name, first, got, want, log)
				}
				if want > 0 && (!strings.Contains(log.String(), "compression "+kind) || !strings.Contains(log.String(), "optimizer "+name)) {
					t.Errorf("%s with %s: the log names neither:\n%s", kind, name, log)
				}
			}
		}
	}
}
