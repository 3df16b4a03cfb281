package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/transport"
)

func issued(t *testing.T, role string) *identity.Identity {
	t.Helper()
	a, err := identity.NewAuthority("j7")
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Issue(role, role+" 1")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestFromEnvReadsTheIdentity(t *testing.T) {
	text := issued(t, identity.Worker).Encode()
	cfg, err := FromEnv(with("PARAGON_IDENTITY", text).get)
	if err != nil || cfg.Identity == nil || cfg.Identity.Encode() != text {
		t.Errorf("got %v and error %v, want the worker's", cfg.Identity, err)
	}
	tc, err := TransportFromEnv(with("PARAGON_IDENTITY", text, "PARAGON_SECRET", "00ff").get)
	if err != nil || tc.Identity == nil || len(tc.Secret) != 2 || tc.Network != transport.Auto || !slices.Equal(tc.Peers, []string{identity.Scheduler}) {
		t.Errorf("TransportFromEnv: got %+v and error %v", tc, err)
	}
	for _, tc := range []struct{ name, role, text, want string }{
		{"another role's", "server", text, "cluster: Identity worker 1 of job j7: got the certificate of a worker, want one of a server, the role of this process"},
		{"half of it", "worker", text[:len(text)/2], "cluster: PARAGON_IDENTITY: identity: decode: "},
	} {
		_, err := FromEnv(with("DMLC_ROLE", tc.role, "PARAGON_IDENTITY", tc.text).get)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), text[:30]) {
			t.Errorf("%s: got error %v, want %q and nothing of the value", tc.name, err, tc.want)
		}
	}
}

func TestPeersAreThoseThatHaveBusiness(t *testing.T) {
	for _, tc := range []struct {
		role  Role
		peers []Role
		want  string
	}{
		{Worker, []Role{Scheduler}, "scheduler"},
		{Worker, []Role{Server}, "server"},
		{Server, nil, "worker server"},
		{Scheduler, nil, "worker server launcher"},
	} {
		if got := strings.Join(Config{Role: tc.role}.Transport(tc.peers...).Peers, " "); got != tc.want {
			t.Errorf("a %v to %v: got %q, want %q", tc.role, tc.peers, got, tc.want)
		}
	}
}
