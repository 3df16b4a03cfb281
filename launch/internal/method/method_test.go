package method

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// Some hosts may run only workers or only servers.
func TestPlacement(t *testing.T) {
	host := func(names string) (all []hosts.Host) {
		for name := range strings.FieldsSeq(names) {
			all = append(all, hosts.Host{Name: name})
		}
		return all
	}
	names := func(all []hosts.Host) string {
		var b strings.Builder
		for _, h := range all {
			b.WriteString(h.Name + " ")
		}
		return strings.TrimSpace(b.String())
	}
	for _, tc := range []struct {
		workers, servers                      string
		wantWorkers, wantServers, all, wanted string
	}{
		{"a b", "a b", "a b a", "a b", "a b", ""},
		{"a b", "c", "a b a", "c c", "a b c", ""},
		{"a", "c a", "a a a", "c a", "a c", ""},
		{"", "a", "", "", "a", "place 3 workers: no host runs workers"},
		{"a", "", "", "", "a", "place 2 servers: no host runs servers"},
	} {
		h := Hosts{host(tc.workers), host(tc.servers)}
		p, err := h.Place(3, 2)
		switch {
		case tc.wanted != "" && (err == nil || err.Error() != tc.wanted):
			t.Errorf("workers on %q, servers on %q: got error %v, want %q", tc.workers, tc.servers, err, tc.wanted)
		case tc.wanted == "" && (err != nil || names(p.Workers) != tc.wantWorkers || names(p.Servers) != tc.wantServers):
			t.Errorf("workers on %q, servers on %q: got workers on %q, servers on %q, %v; want %q and %q",
				tc.workers, tc.servers, names(p.Workers), names(p.Servers), err, tc.wantWorkers, tc.wantServers)
		}
		if got := names(h.All()); got != tc.all {
			t.Errorf("workers on %q, servers on %q: all are %q, want %q", tc.workers, tc.servers, got, tc.all)
		}
	}
}
