package shard

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// Whatever the order of pushes, repeats, joins and losses, a closed round is a sum of whole
// contributions of distinct nodes, has one of every member that was needed when it closed, and one
// of nobody who was not told so.
func TestClosedRoundsAreWholeContributionsOfDistinctNodes(t *testing.T) {
	for seed := range seeds(100, 1000) {
		m := newModel(t, seed)
		for range 200 {
			m.step()
		}
		if m.closed == 0 {
			t.Errorf("seed %d: no round closed", seed)
		}
	}
}

// The same is true where a round is held until its decision, and whoever is in a round that is held
// is in it when it closes.
func TestHeldRoundsAreWholeContributionsOfDistinctNodes(t *testing.T) {
	for seed := range seeds(100, 1000) {
		m := newModel(t, seed)
		m.most, m.clips = 12, true
		setOptimizer(t, m.s, optim.Config{Name: "test", LearningRate: 1, ClipGlobalNorm: 1})
		for range 200 {
			m.step()
		}
		if m.closed == 0 {
			t.Errorf("seed %d: no round closed", seed)
		}
	}
}

// A model drives one shard at random. Node k contributes 2^k, so the value of a round without an
// optimizer says who is in it.
type model struct {
	t          *testing.T
	seed       uint64
	random     *rand.Rand
	s          *Shard
	generation uint64
	members    map[int]uint64          // living nodes and the first round they count in
	next       map[int]uint64          // a node's next round
	seq        map[int]uint64          // pushes of a node that were held
	held       map[uint64]map[int]bool // by round: who was told that it counts
	counted    map[int]uint64          // examples of a node's pushes that were held
	counts     bool                    // a push that counts examples was held
	closed     uint64
	nodes      int // ever
	// most is how many nodes there may be ever.
	most int

	// clips says that rounds are held: the value is then the sum of all rounds. before is the
	// value of the rounds that have closed, and whole who must be in the open round, which is
	// held, if isHeld.
	clips  bool
	before uint64
	isHeld bool
	whole  []int
}

const maxNodes = 20 // 2^20 is exact in float32

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 11)), s: dense(t, 0, 0),
		members: map[int]uint64{}, next: map[int]uint64{}, seq: map[int]uint64{}, held: map[uint64]map[int]bool{},
		counted: map[int]uint64{}, most: maxNodes,
	}
	for range 3 {
		m.members[m.nodes] = 0
		m.nodes++
	}
	m.setMembers()
	return m
}

func (m *model) setMembers() {
	m.generation++
	var list []Member
	rank := uint32(0)
	for k := range m.nodes {
		if from, ok := m.members[k]; ok {
			list = append(list, Member{Node: uint64(k), Rank: rank, From: from, Group: 1 + rank})
			for _, x := range list { // nodes of one host have the same number modulo 3
				if x.Node%3 == uint64(k)%3 {
					list[rank].Group = x.Group
					break
				}
			}
			rank++
		}
	}
	needed := m.needed()
	if err := m.s.SetMembers(m.generation, list); err != nil {
		m.t.Fatalf("seed %d: %v", m.seed, err)
	}
	m.look(needed)
}

// needed returns who must be in the open round and the one after it.
func (m *model) needed() [2][]int {
	var n [2][]int
	for k := range m.nodes {
		if from, ok := m.members[k]; ok {
			for i := range n {
				if from <= m.closed+uint64(i) {
					n[i] = append(n[i], k)
				}
			}
		}
	}
	return n
}

// look checks the value if a round has closed.
func (m *model) look(needed [2][]int) {
	rounds := m.s.Rounds()
	if rounds == m.closed {
		m.lookHeld(needed[0])
		return
	}
	if m.clips && (rounds != m.closed+1 || !m.isHeld) {
		m.t.Fatalf("seed %d: round %d closed without a decision", m.seed, m.closed)
	}
	if rounds > m.closed+2 {
		m.t.Fatalf("seed %d: %d rounds closed at once", m.seed, rounds-m.closed)
	}
	v, _, _ := m.s.Pull(Want{Round: rounds})
	defer v.Release()
	value := uint64(v.Float32s()[0]) - m.before
	if m.clips {
		m.before += value
		needed[0] = m.whole
	}
	for k := range m.nodes {
		got, told := value>>k&1 == 1, m.held[rounds-1][k]
		if got != told {
			m.t.Fatalf("seed %d round %d: node %d is in the sum: %v, was told so: %v", m.seed, rounds-1, k, got, told)
		}
	}
	if value>>m.nodes != 0 {
		m.t.Fatalf("seed %d round %d: sum %d has contributions of nobody or some twice", m.seed, rounds-1, value)
	}
	for _, k := range needed[rounds-m.closed-1] {
		if value>>k&1 == 0 {
			m.t.Fatalf("seed %d round %d: member %d is not in the sum", m.seed, rounds-1, k)
		}
	}
	m.closed = rounds
	if m.isHeld = false; m.clips {
		m.lookHeld(m.needed()[0])
	}
}

// lookHeld notes that the open round is held, if it is, and who must be in it.
func (m *model) lookHeld(needed []int) {
	if !m.clips || m.isHeld {
		return
	}
	h, err := m.s.ReadHeld(m.closed)
	if err != nil {
		return
	}
	m.isHeld, m.whole = true, needed
	sum := 0.0
	for k := range m.held[m.closed] {
		sum += float64(uint64(1) << k)
	}
	if got := h.Squares.Total(); got != sum*sum {
		m.t.Fatalf("seed %d round %d: got squares %v, want those of %v", m.seed, m.closed, got, sum)
	}
}

// decide brings the open round a decision, which is refused unless it is held.
func (m *model) decide() {
	needed := m.needed()
	_, err := m.s.Decide(m.closed, Decision{Norm: 1, Factor: 1})
	if m.isHeld != (err == nil) {
		m.t.Fatalf("seed %d: decision of round %d, held: %v: got %v", m.seed, m.closed, m.isHeld, err)
	}
	m.look(needed)
}

func (m *model) step() {
	switch r := m.random.IntN(100); {
	case r < 2 && m.nodes < m.most: // somebody joins
		from := m.closed + m.random.Uint64N(4)
		if m.isHeld {
			from = max(from, m.closed+1)
		}
		m.members[m.nodes], m.next[m.nodes] = from, max(from, m.closed)
		m.nodes++
		m.setMembers()
	case r < 4 && len(m.members) > 1: // somebody is lost
		k := m.pick()
		delete(m.members, k)
		m.setMembers()
	case r < 25:
		m.pushTogether(m.pick())
	case r < 40 && m.clips:
		m.decide()
	default:
		m.push(m.pick())
	}
	for k := range m.nodes { // the lost ones, too
		if got, ok := m.s.ExamplesOf(uint64(k)); got != m.counted[k] || ok != m.counts {
			m.t.Fatalf("seed %d: node %d counted %d examples, %v; want %d, %v", m.seed, k, got, ok, m.counted[k], m.counts)
		}
	}
}

func (m *model) pick() int {
	for {
		if k := m.random.IntN(m.nodes); m.has(k) {
			return k
		}
	}
}

func (m *model) has(k int) bool { _, ok := m.members[k]; return ok }

func (m *model) push(k int) {
	round, seq := m.next[k], m.seq[k]+1
	repeat := m.seq[k] > 0 && m.random.IntN(4) == 0
	if repeat {
		round, seq = round-1, seq-1
	}
	c := Contribution{Generation: m.generation, Node: uint64(k), Seq: seq, Round: round, Weight: 1, Data: m.s.cfg.Pool.Get(4)}
	c.Data.Float32s(1)[0] = float32(uint64(1) << k)
	if m.random.IntN(10) == 0 {
		c.Generation--
	}
	if c.Counted = m.random.IntN(2) == 0; c.Counted {
		c.Examples = uint64(m.random.IntN(100))
	}
	needed := m.needed()
	status, err := m.s.Push(c)
	switch {
	case c.Generation != m.generation:
		if err == nil {
			m.t.Fatalf("seed %d: a push of generation %d was taken in %d", m.seed, c.Generation, m.generation)
		}
		c.Data.Release()
	case err != nil && m.members[k] > round, err != nil && round < m.closed: // before it counts; or it joined too late for its round
		m.next[k] = max(m.members[k], m.closed)
		c.Data.Release()
	case err != nil:
		m.t.Fatalf("seed %d: push of node %d round %d: %v", m.seed, k, round, err)
	case status == Ahead:
		if round <= m.closed+1 {
			m.t.Fatalf("seed %d: node %d has to wait for round %d, %d closed", m.seed, k, round, m.closed)
		}
		c.Data.Release()
	case repeat != (status == Repeated):
		m.t.Fatalf("seed %d: push %d of node %d: got status %d, sent before: %v", m.seed, seq, k, status, repeat)
	case status == Held:
		if m.held[round] == nil {
			m.held[round] = map[int]bool{}
		}
		m.held[round][k] = true
		if c.Counted {
			m.counted[k] += c.Examples
			m.counts = true
		}
		m.seq[k], m.next[k] = seq, round+1
	}
	m.look(needed)
}

// pushTogether pushes the sum of a node and of others of its host that are at the same round;
// sometimes of one that is not, or that is no member.
func (m *model) pushTogether(k int) {
	round, wrong := m.next[k], m.random.IntN(8) == 0
	c := Contribution{Generation: m.generation, Node: uint64(k), Round: round, Data: m.s.cfg.Pool.Get(4)}
	sum, allowed, counted := uint64(0), round >= m.closed && round <= m.closed+1, 0
	for x := range m.nodes {
		member := m.has(x) && m.next[x] == round && m.members[x] <= round
		if x != k && (x%3 != k%3 || m.random.IntN(4) == 0 || !member && (m.has(x) || !wrong)) {
			continue
		}
		seq := m.seq[x] + 1
		if x != k && m.seq[x] > 0 && m.random.IntN(20) == 0 { // it has counted before
			seq--
			counted++
		}
		allowed = allowed && member
		sum += uint64(1) << x
		c.Contributors = append(c.Contributors, wire.Contributor{Node: uint64(x), Seq: seq, Weight: 1, Examples: 3, Counted: true})
	}
	c.Data.Float32s(1)[0] = float32(sum)
	needed := m.needed()
	status, err := m.s.Push(c)
	if status == Refused || status == Ahead {
		c.Data.Release()
	}
	if status == Held != (allowed && counted == 0) {
		m.t.Fatalf("seed %d: push of %v to round %d, %d closed: got status %d, %v; allowed: %v", m.seed, c.Contributors, round, m.closed, status, err, allowed)
	}
	if status == Held {
		m.counts = true
		for _, x := range c.Contributors {
			k := int(x.Node)
			if m.held[round] == nil {
				m.held[round] = map[int]bool{}
			}
			m.held[round][k] = true
			m.counted[k] += 3
			m.seq[k], m.next[k] = x.Seq, round+1
		}
	}
	m.look(needed)
}

// seeds is how many runs a randomised test makes: quick ones, or all with PARAGON_TEST_SLOW.
func seeds(quick, all uint64) uint64 {
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		return all
	}
	return quick
}
