package cluster_test

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/cluster"
)

func environment(list ...string) func(string) string {
	m := map[string]string{}
	for _, x := range list {
		name, value, _ := strings.Cut(x, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func TestVariablesThatDoNothingHereAreNamed(t *testing.T) {
	got := cluster.ForeignVariables(environment("MXNET_KVSTORE_BIGARRAY_BOUND=4000", "PS_HEARTBEAT_TIMEOUT=5", "PS_VERBOSE=1", "DMLC_ROLE=worker"))
	if len(got) != 2 || !strings.HasPrefix(got[0], "MXNET_KVSTORE_BIGARRAY_BOUND=4000 has no effect in Paragon: ") || !strings.Contains(got[1], "PARAGON_LEASE") {
		t.Errorf("got %q", got)
	}
	if got := cluster.ForeignVariables(environment()); got != nil {
		t.Errorf("an empty environment: got %q", got)
	}
}
