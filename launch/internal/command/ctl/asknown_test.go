package ctl

import (
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A host that is spelled otherwise than in the job is that host.
func TestCtlSpellsHostsAsTheJobDoes(t *testing.T) {
	s := &control.Status{Hosts: []control.Host{{Host: "d1"}, {Host: "me@D2.net:2222"}, {Host: "::1"}}}
	for _, tc := range []struct{ given, want string }{
		{"D1", "d1"}, {"d1.", "d1"}, {"d1", "d1"}, {"me@d2.NET:2222", "me@D2.net:2222"}, {"d2.net", "d2.net"}, {"0:0:0::1", "::1"}, {"D3", "D3"},
	} {
		h, err := hosts.ParseHost(tc.given)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hosts.ParseHost(tc.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := asKnown(h, s); got != want {
			t.Errorf("%s: got %v, want %v", tc.given, got, want)
		}
	}
}
