package trialjob

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune/internal/slots"
)

// Launch gives each worker its own GPUs where they are named by UUID. Numbers, which
// CUDA_VISIBLE_DEVICES may have, go by that variable.
func TestLaunchGetsTheGPUsOfATrial(t *testing.T) {
	for _, tc := range []struct {
		gpus []string
		want []string
	}{
		{nil, []string{"--gpus", "0"}},
		{[]string{"GPU-a", "GPU-b"}, []string{"--gpus", "GPU-a,GPU-b"}},
		{[]string{"1", "GPU-b"}, []string{"--env-worker", "CUDA_VISIBLE_DEVICES"}},
	} {
		if got := gpuFlags(&slots.Grant{Parts: []slots.Part{{Node: "d1", GPUs: tc.gpus}, {Node: "d2"}}}); !slices.Equal(got, tc.want) {
			t.Errorf("GPUs %q: launch gets %q, want %q", tc.gpus, got, tc.want)
		}
	}
}
