package run

import (
	"os"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

func TestOnlyThisMachineIsHere(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		host string
		want bool
	}{
		{"localhost", true}, {"127.0.0.7", true}, {"::1", true}, {name, true},
		{"10.0.0.7", false}, {"no-such-host", false}, {"me@localhost", false}, {"localhost:22", false},
	} {
		h, err := hosts.ParseHost(tc.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := isHere(h); got != tc.want {
			t.Errorf("isHere(%s) = %t, want %t", tc.host, got, tc.want)
		}
	}
}
