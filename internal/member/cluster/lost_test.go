package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

const declaredLost = "node 7 (worker 1 on d2) was declared lost: no heartbeat for 10 s"

// forgetful is a scheduler that takes a worker in, acknowledges its heartbeats, and to all else
// says that it is lost.
type forgetful struct{ joining bool }

func (f forgetful) Serve(ctx context.Context, r *transport.Request) (transport.Response, error) {
	m := wire.New(r.Kind)
	if err := wire.DecodeHead(m, r.Head); err != nil {
		return transport.Response{}, err
	}
	switch m := m.(type) {
	case *wire.Register:
		return transport.Response{Message: &wire.Registered{Node: 7, HeartbeatMillis: 1000, LeaseMillis: 10_000}}, nil
	case *wire.Heartbeat:
		return transport.Response{Message: &wire.Beat{Generation: 1, Revision: 1}}, nil
	case *wire.Watch:
		if m.Revision > 0 {
			<-ctx.Done()
			return transport.Response{}, ctx.Err()
		}
		member := wire.Member{Node: 7, Role: wire.RoleWorker, Host: "d2"}
		if f.joining {
			member.State = wire.MemberJoining
		}
		return transport.Response{Message: &wire.Membership{Generation: 1, Revision: 1, Phase: wire.PhaseRunning, Workers: 1, Servers: 1, Nodes: []wire.Member{member}}}, nil
	}
	return transport.Response{}, transport.Refuse(wire.CodeUnknownNode, 1, declaredLost)
}

func (forgetful) Buffer(*transport.Request, int) ([]byte, error) {
	return nil, errors.New("no payload")
}
func (forgetful) Drop(*transport.Request) {}

// Whatever a lost node asks of the scheduler first, it hears that it is lost, and so do all who ask
// it.
func TestWhateverALostNodeAsksFirstItHearsThatItIsLost(t *testing.T) {
	for verb, ask := range map[string]func(ctx context.Context, n *cluster.Node) error{
		"declare": func(ctx context.Context, n *cluster.Node) error {
			_, err := n.Declare(ctx, wire.Declare{Name: "x", Size: 1})
			return err
		},
		"barrier":   func(ctx context.Context, n *cluster.Node) error { return n.Barrier(ctx, "b") },
		"signal":    func(ctx context.Context, n *cluster.Node) error { return n.Signal(ctx, "s", "") },
		"await":     func(ctx context.Context, n *cluster.Node) error { _, err := n.Await(ctx, "s"); return err },
		"ready":     func(ctx context.Context, n *cluster.Node) error { return n.Ready(ctx) },
		"arrive":    func(ctx context.Context, n *cluster.Node) error { return n.Arrive(ctx, wire.Arrive{Change: 1}) },
		"ask leave": func(ctx context.Context, n *cluster.Node) error { return n.AskLeave(ctx, "SIGTERM") },
		"counted":   func(ctx context.Context, n *cluster.Node) error { return n.ReportLostExamples(ctx, 1, 3, 9) },
		"filled":    func(ctx context.Context, n *cluster.Node) error { return n.Filled(ctx, wire.Filled{}) },
		"places":    func(ctx context.Context, n *cluster.Node) error { _, err := n.Places(ctx, 0); return err },
	} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := faultnet.New(1)
				ln, err := network.Host("scheduler").Listen("scheduler:1")
				if err != nil {
					t.Fatal(err)
				}
				silent := slog.New(slog.DiscardHandler)
				srv := transport.NewServer(ln, forgetful{joining: verb == "ready"}, transport.Config{Network: network.Host("scheduler"), Peers: []string{"worker"}, Logger: silent})
				go srv.Serve()
				defer srv.Close()
				n, err := cluster.Join(t.Context(), cluster.Config{Role: cluster.Worker, Rank: -1, NumWorkers: 1, NumServers: 1, Scheduler: "scheduler:1", Host: "d2",
					Joining: verb == "ready", Network: network.Host("d2"), Logger: silent})
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				got := ask(t.Context(), n)
				select {
				case <-n.Done():
				case <-time.After(time.Second): // fake: by then all is told
					t.Error("the node has not ended")
				}
				_, _, served := n.Server(0)
				for who, err := range map[string]error{verb: got, "Err": n.Err(), "Server": served} {
					var lost *cluster.LostError
					if !errors.Is(err, cluster.ErrLost) || !errors.As(err, &lost) || lost.Reason != declaredLost || !strings.Contains(err.Error(), "PARAGON_JOIN=1") {
						t.Errorf("%s: got error %v, want a LostError with the scheduler's reason and what to do", who, err)
					}
				}
			})
		})
	}
}
