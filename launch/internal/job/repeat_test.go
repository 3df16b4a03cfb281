package job

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// A job that is started again does not wait for hosts that come by themselves and are not there, as
// long as it has enough without them.
func TestAJobThatIsStartedAgainIsPlacedOnTheHostsThatAreThere(t *testing.T) {
	list := func(text string) (all []hosts.Host) {
		for name := range strings.FieldsSeq(text) {
			h := hosts.Host{Name: strings.TrimSuffix(name, "*2")}
			if h.Name != name {
				h.Slots = 2
			}
			all = append(all, h)
		}
		return all
	}
	text := func(all []hosts.Host) string {
		var names []string
		for _, h := range all {
			names = append(names, h.Name)
		}
		return strings.Join(names, " ")
	}
	for _, tc := range []struct {
		wanted, servers   string
		there             [2]string // may work, may serve
		min               int
		workers, placedAt string
	}{
		{"n1 n2*2", "n1 n2", [2]string{"n1 n2", "n1 n2"}, 1, "n1 n2 n2", "n1 n2"},
		{"n1 n2*2", "n1 n2", [2]string{"n1", "n1"}, 1, "n1", "n1 n1"},
		{"n1 n2*2", "n1 n2", [2]string{"n2 n3", "n2 n3"}, 2, "n2 n2", "n2 n2"},
		{"n1 n2*2", "n1 n2", [2]string{"n1", "n1"}, 2, "n1 n2 n2", "n1 n1"}, // too few: all are waited for
		{"n1 n2", "s1 s2 s3", [2]string{"n1 n2", "s2 s4"}, 1, "n1 n2", "s2 s2 s4"},
		{"n1 n2", "s1", [2]string{"", ""}, 1, "n1 n2", "s1"},
	} {
		e := Elastic{MinWorkers: tc.min, There: func() (w, s []hosts.Host) { return list(tc.there[0]), list(tc.there[1]) }}
		workers, servers := placeAgain(list(tc.wanted), list(tc.servers), e)
		if text(workers) != tc.workers || text(servers) != tc.placedAt {
			t.Errorf("%+v: workers on %q, servers on %q", tc, text(workers), text(servers))
		}
	}
	if workers, servers := placeAgain(list("n1 n2"), list("n1"), Elastic{}); text(workers) != "n1 n2" || text(servers) != "n1" {
		t.Errorf("hosts of a list: workers on %q, servers on %q", text(workers), text(servers))
	}
}
