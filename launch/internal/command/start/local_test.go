package start

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/command/options"
)

// Agents on the job's hosts watch the provider that was named; the launching machine may be none of
// its machines.
func TestAgentsAreToldWhatToWatch(t *testing.T) {
	for _, tc := range []struct {
		spot         string
		here, remote bool
		want         []string
	}{
		{"", false, true, []string{"agent", "4s"}},
		{"off", true, true, []string{"agent", "4s"}},
		{"aws", false, true, []string{"agent", "4s", "--spot", "aws"}},
		{"aws", true, true, []string{"agent", "4s", "--spot", "auto"}},
		{"aws", true, false, []string{"agent", "4s", "--spot", "aws"}},
		{"auto", false, true, []string{"agent", "4s", "--spot", "auto"}},
	} {
		o := &options.Options{Survival: options.Survival{Spot: tc.spot}, Start: options.Start{Remote: tc.remote}}
		if got := agentArguments(o, "4s", tc.here); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %q", tc, got)
		}
	}
}
