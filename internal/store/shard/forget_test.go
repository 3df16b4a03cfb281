package shard

import (
	"errors"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

var errMoved = errors.New("the shard is at another server")

// A shard that has moved to another server gives back all memory that it took from the pool,
// whatever was under way.
func TestForgottenShardGivesItsMemoryBack(t *testing.T) {
	adam := optim.Config{Name: "adam", LearningRate: 0.1}
	const n = 100
	for _, test := range []struct {
		name  string
		rule  uint8
		mode  uint8
		adam  bool
		until func(t *testing.T, s *Shard) (after func()) // what has happened when the shard is forgotten, and what ends later
	}{
		{name: "new", mode: wire.ModeSync},
		{name: "after a round", mode: wire.ModeSync, adam: true, until: func(t *testing.T, s *Shard) func() {
			mustPush(t, s, contribution(s, 0, 0, make([]float32, n)...), Held)
			mustPush(t, s, contribution(s, 1, 0, make([]float32, n)...), Held)
			return nil
		}},
		{name: "within a round and the next", mode: wire.ModeSync, until: func(t *testing.T, s *Shard) func() {
			mustPush(t, s, contribution(s, 0, 0, make([]float32, n)...), Held)
			mustPush(t, s, contribution(s, 0, 1, make([]float32, n)...), Held)
			return nil
		}},
		{name: "while it is read", mode: wire.ModeSync, adam: true, until: func(t *testing.T, s *Shard) func() {
			v, _, err := s.Pull(Want{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Encoded(wire.CodecBFloat16); err != nil {
				t.Fatal(err)
			}
			mustPush(t, s, contribution(s, 0, 0, make([]float32, n)...), Held)
			mustPush(t, s, contribution(s, 1, 0, make([]float32, n)...), Held)
			w, _, err := s.Pull(Want{Round: 1})
			if err != nil {
				t.Fatal(err)
			}
			return func() { v.Release(); w.Release() }
		}},
		{name: "while its backup is given a round", mode: wire.ModeSync, until: func(t *testing.T, s *Shard) func() {
			if b := fillFrom(t, s, 1, 2, n, func() {}); b == nil {
				t.Fatal("the backup was not filled")
			}
			mustPush(t, s, contribution(s, 0, 0, make([]float32, n)...), Held)
			mustPush(t, s, contribution(s, 1, 0, make([]float32, n)...), Held)
			r := s.Lend()
			return func() { s.Commit(r, true) }
		}},
		{name: "newest contributions", rule: wire.RuleAverage, mode: wire.ModeAsync, until: func(t *testing.T, s *Shard) func() {
			mustPush(t, s, contribution(s, 0, 0, make([]float32, n)...), Held)
			mustPush(t, s, contribution(s, 1, 0, make([]float32, n)...), Held)
			return nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := &Pool{}
			s, err := New(Config{Name: "w", Form: wire.FormDense, Rule: max(test.rule, wire.RuleOptimizer), Length: n, Size: n, Shards: 1, Host: &Host{Pool: pool}}, make([]float32, n))
			if err != nil {
				t.Fatal(err)
			}
			setWorkers(t, s, 1, 2)
			if err := s.SetMode(test.mode); err != nil {
				t.Fatal(err)
			}
			if test.adam {
				setOptimizer(t, s, adam)
			}
			after := func() {}
			if test.until != nil {
				if f := test.until(t, s); f != nil {
					after = f
				}
			}
			s.Forget(errMoved)
			after()
			if taken := pool.Taken(); taken != 0 {
				t.Errorf("%d bytes of the pool are still taken, want 0", taken)
			}
			if s.updater.state != nil {
				t.Error("the optimizer's slots are still here")
			}
			// Who comes late gets the reason, and touches nothing.
			for what, err := range map[string]error{
				"pull":       second(s.Pull(Want{})),
				"write fill": s.WriteFill(0, 0, make([]float32, n)),
				"read state": func() error { _, err := s.ReadState(); return err }(),
			} {
				if !errors.Is(err, errMoved) {
					t.Errorf("%s: got error %v, want %v", what, err, errMoved)
				}
			}
			if s.ReadFill(0, 0, make([]float32, n)) {
				t.Error("read fill: got values of a forgotten shard")
			}
		})
	}
}

func second(_ *Version, _ *Wait, err error) error { return err }

// The same of a backup that was given the newest contributions of a worker which had left by then.
func TestForgottenBackupGivesItsMemoryBack(t *testing.T) {
	s := async(t, 3, 0, 0)
	s.cfg.Rule = wire.RuleAverage
	for r := range 3 {
		mustPush(t, s, contribution(s, r, 0, 1, 2), Held)
	}
	b := fillFrom(t, s, 1, 2, 1, func() {}) // rank 2 has left
	b.Forget(errMoved)
	if taken := b.cfg.Pool.Taken(); taken != 0 {
		t.Errorf("%d bytes of the pool are still taken, want 0", taken)
	}
}
