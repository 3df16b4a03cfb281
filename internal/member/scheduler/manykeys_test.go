package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// plainPlanner is a planner by the plain algorithm, which goes through all keys whenever it needs
// to know something of them: what planner must agree with.
type plainPlanner struct{ *planner }

func (p plainPlanner) keysByID() []*placed {
	list := slices.Collect(maps.Values(p.keys))
	slices.SortFunc(list, func(a, b *placed) int { return int(int64(a.plan.Key) - int64(b.plan.Key)) })
	return list
}

func (p plainPlanner) places(from, placement uint64) *wire.Places {
	m := &wire.Places{Placement: placement, Next: from, Keys: uint64(len(p.keys))}
	for _, k := range p.keysByID() {
		if k.plan.Key < from {
			continue
		}
		if len(m.Places) > 0 && len(m.Places)+len(k.plan.Shards) > maxPlaces {
			return m
		}
		for i := range k.plan.Shards {
			m.Places = append(m.Places, wire.Place{Key: k.plan.Key, Shard: uint32(i), Server: k.plan.Shards[i].Server, Backup: k.backupState(i).Backup})
		}
		m.Next = k.plan.Key + 1
	}
	return m
}

func (p plainPlanner) isFilling() bool {
	for _, k := range p.keys {
		for _, x := range k.spots {
			if x.Backup != wire.NoServer && x.Used && !x.Ready {
				return true
			}
		}
	}
	return false
}

func (p plainPlanner) lose(rank uint32) (changed []*placed, err error) {
	p.gone[rank] = true
	if p.living() == 0 {
		return nil, fmt.Errorf("no server is left")
	}
	for _, k := range p.keysByID() {
		did := false
		for i := range k.plan.Shards {
			s, x := &k.plan.Shards[i], k.backupState(i)
			switch {
			case s.Server == rank && (x.Backup == wire.NoServer || x.Used && !x.Ready):
				return nil, fmt.Errorf("key %q shard %d has no complete copy left", k.plan.Name, i)
			case s.Server == rank:
				s.Server = x.Backup
			case x.Backup != rank:
				continue
			}
			k.spots[i].Backup, k.spots[i].Ready = wire.NoServer, false
			did = true
		}
		if did {
			changed = append(changed, k)
		}
	}
	p.recount()
	for _, k := range p.back(true, p.keysByID()...) {
		if !slices.Contains(changed, k) {
			changed = append(changed, k)
		}
	}
	return changed, nil
}

func (p plainPlanner) even() (changed []*placed) {
	n := uint64(p.living())
	if n < 2 || p.isFilling() {
		return nil
	}
	var total uint64
	for _, l := range p.load {
		total += l
	}
	mean, touched := total/n, map[*placed]bool{}
	for _, k := range p.keysByID() {
		for i := range k.plan.Shards {
			s, x := &k.plan.Shards[i], k.backupState(i)
			if x.Backup == wire.NoServer || !x.Ready || !helps(p.load[s.Server], p.load[x.Backup], s.Length, mean) {
				continue
			}
			p.load[s.Server] -= s.Length
			p.load[x.Backup] += s.Length
			k.spots[i].Backup, k.spots[i].Ready = s.Server, false
			s.Server = x.Backup
			touched[k] = true
		}
	}
	if len(touched) == 0 {
		load := slices.Clone(p.load)
		for _, k := range p.keysByID() {
			for i := range k.plan.Shards {
				s, x := &k.plan.Shards[i], k.backupState(i)
				least := p.least(load, s.Server)
				if least == wire.NoServer || x.Backup == least || !helps(load[s.Server], load[least], s.Length, mean) {
					continue
				}
				load[s.Server] -= s.Length
				load[least] += s.Length
				k.spots[i].Backup, k.spots[i].Ready = least, false
				touched[k] = true
			}
		}
	}
	p.recount()
	for _, k := range p.keysByID() {
		if touched[k] {
			changed = append(changed, k)
		}
	}
	return changed
}

// Plans, hashes, places and moves are those of the plain algorithm, whatever happens to servers.
func TestPlansAreThoseOfThePlainAlgorithm(t *testing.T) {
	for seed := range some(5, 12) {
		rng := rand.New(rand.NewPCG(seed, 6))
		servers := 2 + rng.IntN(4)
		fast, oracle := newPlanner(servers), newPlanner(servers)
		fast.backups, oracle.backups = true, true
		plain := plainPlanner{&oracle}
		same := func(when string, a, b []*placed) {
			t.Helper()
			names := func(list []*placed) (out []string) {
				for _, k := range list {
					out = append(out, k.plan.Name)
				}
				return out
			}
			if !slices.Equal(names(a), names(b)) {
				t.Fatalf("seed %d: %s: got %d changed keys %.300q, want %d %.300q", seed, when, len(a), names(a), len(b), names(b))
			}
			for from := uint64(0); from <= uint64(len(fast.keys)); from += 1 + uint64(rng.IntN(100)) {
				if got, want := fast.places(from, 7), plain.places(from, 7); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: %s: places from %d: got %v, want %v", seed, when, from, got, want)
				}
			}
			for name, want := range oracle.keys {
				got := fast.keys[name]
				if !reflect.DeepEqual(got.plan, want.plan) || !slices.Equal(got.spots, want.spots) {
					t.Fatalf("seed %d: %s: key %s: got %v %v, want %v %v", seed, when, name, got.plan, got.spots, want.plan, want.spots)
				}
			}
			if fast.hash != oracle.hash || (fast.filling > 0) != plain.isFilling() || !slices.Equal(fast.load, oracle.load) {
				t.Fatalf("seed %d: %s: got hash %x, %d filling, load %v, want %x, %v, %v", seed, when, fast.hash, fast.filling, fast.load, oracle.hash, plain.isFilling(), oracle.load)
			}
		}
		for step := range 60 {
			switch n := rng.IntN(10); {
			case n < 4 || len(fast.keys) == 0:
				for range 1 + rng.IntN(20) {
					d := wire.Declare{Name: fmt.Sprint("key", len(fast.keys)), Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: []uint64{1, 64, 5000, 70_000, 3_000_000}[rng.IntN(5)]}
					if got, want := fast.declare(&d, "w", 1), plain.declare(&d, "w", 1); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d: %s: got %v, want %v", seed, d.Name, got, want)
					}
				}
				same("declared", nil, nil)
			case n < 7:
				ok := rng.IntN(12) > 0
				list := plain.keysByID()
				for i := range fast.list {
					for j := range fast.list[i].spots {
						if rng.IntN(8) > 0 {
							fast.filled(fast.list[i], uint32(j), ok)
							plain.filled(list[i], uint32(j), ok)
						}
					}
				}
				same("filled", nil, nil)
			case n == 7 && fast.living() > 1:
				rank := uint32(rng.IntN(servers))
				if fast.gone[rank] {
					continue
				}
				got, err := fast.lose(rank)
				want, err2 := plain.lose(rank)
				if (err == nil) != (err2 == nil) {
					t.Fatalf("seed %d: lose: got %v, want %v", seed, err, err2)
				}
				if err != nil {
					// The job has failed.
					step = 60
					break
				}
				same("lost", got, want)
			case n == 8 && slices.Contains(fast.gone, true):
				rank := uint32(slices.Index(fast.gone, true))
				same("entered", fast.enter(rank), plain.enter(rank))
			default:
				same("evened", fast.even(), plain.even())
			}
			if step == 60 {
				break
			}
		}
	}
}

// manyKeys is a running job with backups and so many keys, all of them filled.
func manyKeys(t *testing.T, keys int) (c *Core, step func(m wire.Message) Output) {
	now, request := time.Unix(1, 0), uint64(0)
	c = NewCore(Settings{Job: "j", Workers: 1, Servers: 2, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute, Elastic: cluster.Elastic{Backups: 1}}, now)
	step = func(m wire.Message) Output {
		request++
		return c.Step(Event{At: now, Request: request, Message: m})
	}
	for i, role := range []uint8{wire.RoleServer, wire.RoleServer, wire.RoleWorker} {
		step(&wire.Register{Role: role, Rank: -1, Workers: 1, Servers: 2, Nonce: uint64(i + 1), Job: "j", Host: "h", Addr: "h:1"})
	}
	for i := range keys {
		k, ok := step(&wire.Declare{Generation: 1, Node: 3, Name: fmt.Sprint("key", i), Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 16}).Answers[0].Message.(*wire.KeyPlan)
		if !ok {
			t.Fatalf("key %d was refused", i)
		}
		s := k.Shards[0].Server
		step(&wire.ReadPlaces{Node: uint64(s) + 1, From: k.Key})
		out := step(&wire.Filled{Node: uint64(s) + 1, OK: true, Placement: 1, Shards: []wire.FilledShard{{Key: k.Key, Backup: uint64(1-s) + 1}}})
		if _, ok := out.Answers[0].Message.(*wire.Ack); !ok {
			t.Fatalf("filled: key %d: got %v", i, out.Answers[0].Message)
		}
	}
	return c, step
}

// What the scheduler does for one key takes no more memory, and so no more time, where it has many
// others.
func TestAKeyCostsTheSameBesideManyOthers(t *testing.T) {
	_, step := manyKeys(t, 5000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	step(&wire.ReadPlaces{Node: 1, From: 4999})
	s := uint64(1)
	if len(step(&wire.ReadPlaces{Node: 1, From: 4999}).Answers[0].Message.(*wire.Places).Places) != 1 {
		t.Fatal("want the places of the last key alone")
	}
	step(&wire.Filled{Node: s, OK: true, Placement: 1, Shards: []wire.FilledShard{{Key: 4998, Backup: 2}}})
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<10 {
		t.Errorf("two questions for places and a report of one key allocate %d bytes beside 5,000 others, want at most 16 KiB", got)
	}
}

// A job has its most keys with backups: they are declared, filled, restored from the journal, and
// survive the loss of a server. One more is refused by the limit.
func TestAJobHasItsMostKeys(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes a minute; set PARAGON_TEST_SLOW=1")
	}
	begun := time.Now()
	lap := func(what string) {
		t.Logf("%s: %v", what, time.Since(begun).Round(time.Millisecond))
		begun = time.Now()
	}
	c, step := manyKeys(t, maxKeys)
	lap("declared and filled")
	nack, ok := step(&wire.Declare{Generation: 1, Node: 3, Name: "one more", Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 1}).Answers[0].Message.(*wire.Nack)
	if want := `key "one more": the job has 1048576 keys, the most that a job may have`; !ok || nack.Text != want {
		t.Fatalf("got %v, want %q", nack, want)
	}
	m := &c.members
	m.places.mark(m.places.plan.list...)
	m.places.dirty, m.job.dirty, m.change.dirty, m.roster.changed = true, true, true, m.roster.nodes
	c.out.unkept = false
	c.record()
	for i, k := range m.places.plan.list {
		c.out.put(fmt.Sprintf("placement/key/%08d", i), keptKey{wire.Declare{Name: k.plan.Name, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 16}, k.by, m.servers.ranks, k.plan.Hash})
	}
	records := c.out.Records
	lap("recorded")
	again, err := Restore(c.set, c.out.now, records)
	if err != nil {
		t.Fatal(err)
	}
	lap("restored")
	if again.members.places.plan.hash != c.members.places.plan.hash || !slices.Equal(again.members.places.plan.load, c.members.places.plan.load) || !slices.Equal(again.members.places.plan.backed, c.members.places.plan.backed) {
		t.Errorf("restored: got hash %x, load %v, want %x, %v", again.members.places.plan.hash, again.members.places.plan.load, c.members.places.plan.hash, c.members.places.plan.load)
	}
	out := step(&wire.Leave{Node: 1, Reason: "it ends"})
	lap("a server lost")
	if phase, reason := c.Phase(); phase != wire.PhaseRunning || len(out.Records) < maxKeys {
		t.Errorf("got phase %s (%s) and %d records, want that the job goes on", phaseNames[phase], reason, len(out.Records))
	}
	for from := uint64(0); from < maxKeys; {
		m := step(&wire.ReadPlaces{Node: 2, From: from}).Answers[0].Message.(*wire.Places)
		from = m.Next
	}
	lap("all places read")
}
