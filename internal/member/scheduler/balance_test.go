package scheduler

import (
	"testing"

	"github.com/paragon-train/paragon/internal/member/cluster"
)

// A backup that is to be somewhere else is none before it has been filled there: a loss meanwhile
// must not take it for one.
func TestABackupThatMovesIsNotReady(t *testing.T) {
	moved := 0
	for servers := 2; servers <= 6; servers++ {
		p := guarded(t, servers)
		p.fillAll()
		rank := uint32(servers - 1)
		if _, err := p.lose(rank); err != nil {
			t.Fatal(err)
		}
		p.fillAll()
		p.enter(rank)
		for range 100 {
			before := map[*placed][]uint32{}
			for _, k := range p.byKey() {
				for i := range k.plan.Shards {
					before[k] = append(before[k], k.backupState(i).Backup)
				}
			}
			if len(p.even()) == 0 {
				break
			}
			for _, k := range p.byKey() {
				for i := range k.plan.Shards {
					if x := k.backupState(i); x.Backup != before[k][i] {
						if moved++; x.Ready {
							t.Fatalf("%d servers: %s shard %d: its backup moved from server %d to %d and is ready", servers, k.plan.Name, i, before[k][i], x.Backup)
						}
					}
				}
			}
			p.fillAll()
		}
	}
	if moved == 0 {
		t.Error("no backup has moved")
	}
}

// Values move where that makes loads more even by more than a fiftieth, and do not only change
// places.
func TestValuesMoveWhereThatHelps(t *testing.T) {
	for _, c := range []struct {
		from, to, n, mean uint64
		want              bool
	}{
		{1000, 0, 400, 500, true},
		{1000, 0, 0, 500, false},
		{510, 490, 10, 500, false}, // within a fiftieth
		{511, 480, 10, 500, true},
		{1000, 0, 1000, 500, false}, // the other one would have as much
		{1000, 0, 999, 500, false},
		{1000, 0, 500, 500, true},
		{1000, 900, 600, 950, false}, // from more than it leaves
		{600, 550, 30, 500, false},   // to would have more than from had left
	} {
		if got := helps(c.from, c.to, c.n, c.mean); got != c.want {
			t.Errorf("%d values from a server of %d to one of %d, mean %d: got %v, want %v", c.n, c.from, c.to, c.mean, got, c.want)
		}
	}
}

// A key is cut so that no piece is above the limit, into as many pieces for each server, but for
// the greatest number of pieces.
func TestKeysAreCutBelowTheLimit(t *testing.T) {
	for _, c := range []struct{ size, limit, servers, most, want uint64 }{
		{100, 100, 1, 1000, 1},
		{101, 100, 1, 1000, 2},
		{200, 100, 1, 1000, 2},
		{201, 100, 1, 1000, 3},
		{1, 100, 3, 1000, 3},
		{300, 100, 3, 1000, 3},
		{301, 100, 3, 1000, 6},
		{600, 100, 3, 1000, 6},
		{601, 100, 3, 1000, 9},
		{10_000, 1, 3, 1000, 1000},
	} {
		if got := shards(c.size, c.limit, c.servers, c.most); got != c.want {
			t.Errorf("%d values, at most %d in a piece, %d servers: got %d pieces, want %d", c.size, c.limit, c.servers, got, c.want)
		}
	}
}

func TestWorkersMayJoinWhereSomethingMayChange(t *testing.T) {
	for _, c := range []struct {
		e    cluster.Elastic
		want bool
	}{
		{cluster.Elastic{OnWorkerLoss: cluster.LossFail}, false},
		{cluster.Elastic{Enabled: true, OnWorkerLoss: cluster.LossFail}, true},
		{cluster.Elastic{OnWorkerLoss: cluster.LossWait}, true},
		{cluster.Elastic{OnWorkerLoss: cluster.LossShrink}, true},
	} {
		if got := (Settings{Elastic: c.e}).joins(); got != c.want {
			t.Errorf("%+v: workers may join: %v, want %v", c.e, got, c.want)
		}
	}
}
