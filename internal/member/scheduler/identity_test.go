package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// A certificate is for one role: nobody does with it what another role does, and the secret alone
// opens nothing.
func TestARoleMayDoItsOwnOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := identity.NewAuthority("test")
		if err != nil {
			t.Fatal(err)
		}
		issue := func(role string) *identity.Identity {
			id, err := a.Issue(role, role)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		n := faultnet.New(1)
		j := startJob(t, n, 1, 1, func(cfg *cluster.Config) { cfg.Identity = issue(cfg.Role.String()) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- j.server(ctx, 0, "s0") }()
		worker := j.config(cluster.Worker, 0, "w0")
		node, err := cluster.Join(ctx, worker)
		if err != nil {
			t.Fatal(err)
		}
		if c, _, err := node.Server(0); err != nil {
			t.Error(err)
		} else if _, err := c.Call(ctx, &wire.Pull{}, &wire.Ack{}, nil); err != nil {
			t.Errorf("a worker to its server: %v", err)
		}

		ask := func(role string, m wire.Message) error {
			cfg := worker.Transport(cluster.Scheduler)
			if cfg.Identity = nil; role != "" {
				cfg.Identity = issue(role)
			}
			c := transport.NewClient(j.addr, cfg)
			defer c.Close()
			var answer wire.Message = &wire.Registered{}
			if m.Kind() == wire.KindControl {
				answer = &wire.Report{}
			}
			_, err := c.Call(ctx, m, answer, nil)
			return err
		}
		control := &wire.Control{Request: `{"op":"status"}`}
		for _, tc := range []struct {
			who  string
			what wire.Message
			// want is in the error.
			want string
		}{
			{identity.Launcher, control, ""},
			{identity.Worker, control, "a worker may not ask for a control"},
			{identity.Server, control, "a server may not ask for a control"},
			{identity.Scheduler, control, "our role has no business there"},
			{"", control, "it wants TLS, and this process has no certificate"},
			{identity.Worker, &wire.Register{Role: wire.RoleServer, Job: "test"}, "a worker may not register as server"},
			{identity.Server, &wire.Register{Role: wire.RoleWorker, Job: "test"}, "a server may not register as worker"},
			{identity.Launcher, &wire.Register{Role: wire.RoleWorker, Job: "test"}, "a launcher may not ask for a register"},
			{identity.Launcher, &wire.Leave{Node: 1}, "a launcher may not ask for a leave"},
			{"", &wire.Register{Role: wire.RoleWorker, Job: "test"}, "it wants TLS, and this process has no certificate"},
		} {
			err := ask(tc.who, tc.what)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%q asks for a %v: got error %v, want %q", tc.who, tc.what.Kind(), err, tc.want)
			}
			var refusal *transport.Refusal
			if errors.As(err, &refusal) && refusal.Code != wire.CodeUnauthorised {
				t.Errorf("%q asks for a %v: got code %v, want %v", tc.who, tc.what.Kind(), refusal.Code, wire.CodeUnauthorised)
			}
		}
		if err := node.Leave(ctx, true, ""); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
		if err := <-j.result; err != nil {
			t.Errorf("scheduler: %v", err)
		}
	})
}
