package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// guarded returns a planner with backups on some servers, and the keys of a model like ResNet18.
func guarded(t *testing.T, servers int) *planner {
	t.Helper()
	p := newPlanner(servers)
	p.backups = true
	for i := range 62 {
		d := &wire.Declare{Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: []uint64{64, 36_864, 147_456, 589_824, 2_359_296}[i%5], Name: fmt.Sprint("key", i)}
		if _, ok := p.declare(d, "worker 0", 1).(*wire.KeyPlan); !ok {
			t.Fatalf("%s was refused", d.Name)
		}
	}
	return &p
}

// check holds what is true of any placement: a backup is on another server than its shard, nothing
// is on one that is gone, and each shard has a backup if two servers are there.
func (p *planner) check(t *testing.T, when string) {
	t.Helper()
	for _, k := range p.byKey() {
		for i := range k.plan.Shards {
			s, b := k.plan.Shards[i].Server, k.backupState(i).Backup
			switch {
			case p.gone[s]:
				t.Fatalf("%s: %s shard %d is at server %d, which is gone", when, k.plan.Name, i, s)
			case b == wire.NoServer && p.living() > 1:
				t.Fatalf("%s: %s shard %d has no backup on %d servers", when, k.plan.Name, i, p.living())
			case b == s || b != wire.NoServer && p.gone[b]:
				t.Fatalf("%s: %s shard %d of server %d has its backup at server %d", when, k.plan.Name, i, s, b)
			}
		}
	}
}

// uneven is the greatest load over the mean one of the living servers.
func (p *planner) uneven(load []uint64) float64 {
	var most, sum uint64
	for r, l := range load {
		if !p.gone[r] {
			most, sum = max(most, l), sum+l
		}
	}
	return float64(most) * float64(p.living()) / float64(sum)
}

func (p *planner) fillAll() {
	for _, k := range p.byKey() {
		for i := range k.spots {
			p.filled(k, uint32(i), true)
		}
	}
}

func TestBackupsAreOnOtherServersAndEven(t *testing.T) {
	for servers := 2; servers <= 8; servers++ {
		p := guarded(t, servers)
		p.check(t, "at first")
		p.recount()
		if u := p.uneven(p.load); u > 1.05 {
			t.Errorf("%d servers: primaries: got %.3f times the mean, want at most 1.05", servers, u)
		}
		if u := p.uneven(p.backed); u > 1.1 {
			t.Errorf("%d servers: backups: got %.3f times the mean, want at most 1.1", servers, u)
		}
		p.fillAll()
		if _, err := p.lose(0); err != nil {
			t.Fatal(err)
		}
		if u := p.uneven(p.load); servers > 2 && u > 1.35 {
			t.Errorf("%d servers, one lost: got %.3f times the mean, want at most 1.35", servers, u)
		}
	}
}

// Servers are lost and come; shards move until loads are even, and no step takes the last copy of
// anything.
func TestShardsSurviveLossesAndMoveToServersThatCome(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		servers := 2 + rng.IntN(5)
		p := guarded(t, servers)
		p.fillAll()
		for step := range 10 {
			rank := uint32(rng.IntN(servers))
			if !p.gone[rank] && p.living() > 1 {
				if _, err := p.lose(rank); err != nil {
					t.Fatalf("seed %d: lose %d: %v", seed, rank, err)
				}
				p.check(t, fmt.Sprintf("seed %d step %d: server %d lost", seed, step, rank))
			} else if p.gone[rank] {
				p.enter(rank)
				for moves := 0; ; moves++ {
					p.fillAll()
					if len(p.even()) == 0 {
						break
					}
					p.check(t, fmt.Sprintf("seed %d step %d: shards move", seed, step))
					if moves > 100 {
						t.Fatalf("seed %d: shards move for ever: %v", seed, p.load)
					}
				}
				if u := p.uneven(p.load); u > 1.1 {
					t.Errorf("seed %d: server %d came: got %.3f times the mean, want at most 1.1: %v", seed, rank, u, p.load)
				}
			}
			p.fillAll()
		}
	}
}

// A shard whose backup is still being filled is lost with its server, and named; one that has no
// value yet is not.
func TestLossOfAShardWithoutAWholeBackupIsNamed(t *testing.T) {
	p := guarded(t, 3)
	if _, err := p.lose(0); err != nil {
		t.Errorf("before there are values: %v", err)
	}
	p.fillAll()
	if _, err := p.lose(1); err != nil {
		t.Errorf("with whole backups: %v", err)
	}
	if _, err := p.lose(2); err == nil {
		t.Error("the last server was lost, and no error")
	}
	p = guarded(t, 3)
	p.fillAll()
	p.filled(p.byKey()[4], 0, false)
	_, err := p.lose(p.byKey()[4].plan.Shards[0].Server)
	if err == nil || !strings.Contains(err.Error(), `key "key4" shard 0 of 3 has no complete copy left: its backup on server`) {
		t.Errorf("got %v, want an error that names the shard", err)
	}
}

// What was placed comes back from the records, also after losses.
func TestPlacesAreKept(t *testing.T) {
	p := guarded(t, 4)
	p.fillAll()
	if _, err := p.lose(2); err != nil {
		t.Fatal(err)
	}
	q := guarded(t, 4)
	for i, k := range p.byKey() {
		if err := q.restore(q.byKey()[i], k.kept()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := q.places(0, 1).Places, p.places(0, 1).Places; !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if err := q.restore(q.byKey()[0], keptPlaces{Servers: []uint32{9}}); err == nil {
		t.Error("a shard at server 9 of 4, and no error")
	}
}
