package kvstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

// Rows and averaged keys travel as they are: residuals for one are from somewhere else, and nothing
// is set.
func TestResidualsOfWhatIsNeverCompressedAreRefused(t *testing.T) {
	c := kvstore.Compression{Type: "2bit"}
	for _, name := range []string{"rows", "mean"} {
		kv, _ := compressing(t, "dist_sync", c, 2)
		must(kv.InitRows(t.Context(), "rows", 2, 1, nil))
		must(kv.InitAverage(t.Context(), "mean", make([]float32, 2)))
		before := residualOf(kv)
		err := kv.SetResiduals(t.Context(), kvstore.Residuals{Compression: c, Values: map[string][][]float32{"w": {{0.1, 0.2}}, name: {{0.1, 0.2}}}})
		if !errors.Is(err, kvstore.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v, want %v with the key's name", name, err, kvstore.ErrUnsupported)
		}
		if after := residualOf(kv); after != before {
			t.Errorf("%s: got residuals %s after the refusal, want %s", name, after, before)
		}
	}
}
