package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

// A handClock is a Meter on made-up time. Each reading of its clock takes cost.
type handClock struct {
	now, cost int64
	rounds    []Timing
	held      int64
}

func (m *handClock) Now() int64                 { m.now += m.cost; return m.now }
func (m *handClock) Closed(_ *Config, t Timing) { m.rounds = append(m.rounds, t) }
func (m *handClock) Hold(bytes int64)           { m.held += bytes }

func timed(t testing.TB, workers int, mode uint8) (*Shard, *handClock) {
	t.Helper()
	m := &handClock{now: 1000}
	s := dense(t, workers, 0)
	s.cfg.Meter = m
	if err := s.SetMode(mode); err != nil {
		t.Fatal(err)
	}
	return s, m
}

// came is a contribution of rank that was whole on the server at a time.
func came(s *Shard, at int64, rank int, round uint64) Contribution {
	c := contribution(s, rank, round, 1)
	c.Arrived = at
	return c
}

// want compares the durations and the blame of the rounds since the last call, which all closed
// now.
func (m *handClock) want(t testing.TB, what string, want ...Timing) {
	t.Helper()
	for i := range m.rounds {
		r := &m.rounds[i]
		if r.At > m.now || r.Update > r.Apply {
			t.Errorf("%s: got %+v, want it closed by %d and no more update than work", what, *r, m.now)
		}
		r.Round, r.Node, r.At, r.Update = 0, 0, 0, 0
	}
	if !slices.Equal(m.rounds, want) {
		t.Errorf("%s: got %+v, want %+v", what, m.rounds, want)
	}
	m.rounds = nil
}

// The gap between the last contribution and the last but one is charged to the node that came last,
// whatever the order in which they reach the shard.
func TestTheLastContributionIsCharged(t *testing.T) {
	for _, mode := range []uint8{wire.ModeSync, wire.ModeAnyOrder} {
		s, m := timed(t, 3, mode)
		mustPush(t, s, came(s, 1010, 0, 0), Held)
		mustPush(t, s, came(s, 1070, 2, 0), Held) // came last, and took the lock before rank 1
		mustPush(t, s, came(s, 1030, 1, 0), Held)
		m.want(t, "the last took the lock first", Timing{Duration: -10, Gap: 40, Last: node(2)})

		m.now = 2000
		mustPush(t, s, came(s, 2000, 0, 1), Held)
		mustPush(t, s, came(s, 2050, 0, 1), Repeated) // counts as having come when it came first
		mustPush(t, s, came(s, 2010, 1, 1), Held)
		m.now = 2100
		mustPush(t, s, came(s, 2100, 2, 1), Held)
		m.want(t, "a repeat", Timing{Duration: 100, Gap: 90, Last: node(2)})

		mustPush(t, s, came(s, 2110, 0, 2), Held)
		mustPush(t, s, came(s, 2120, 0, 3), Held) // a round ahead
		mustPush(t, s, came(s, 2130, 1, 2), Held)
		mustPush(t, s, came(s, 2140, 1, 3), Held)
		m.now = 2200
		mustPush(t, s, came(s, 2200, 2, 2), Held)
		m.now = 2230
		mustPush(t, s, came(s, 2230, 2, 3), Held)
		m.want(t, "rounds ahead begin when they open", Timing{Duration: 90, Gap: 70, Last: node(2)}, Timing{Duration: 30, Gap: 30, Last: node(2)})

		early := came(s, 2240, 0, 6)
		mustPush(t, s, early, Ahead)
		for round := uint64(4); round < 6; round++ {
			m.now = 2300 + 10*int64(round)
			mustPush(t, s, came(s, m.now, 0, round), Held)
			mustPush(t, s, came(s, m.now, 1, round), Held)
			mustPush(t, s, came(s, m.now, 2, round), Held)
		}
		m.rounds = nil
		early.Data = s.cfg.Pool.Get(4)
		mustPush(t, s, early, Held) // when round 6 has opened
		mustPush(t, s, came(s, 2390, 1, 6), Held)
		m.now = 2400
		mustPush(t, s, came(s, 2400, 2, 6), Held)
		m.want(t, "two rounds ahead", Timing{Duration: 50, Gap: 10, Last: node(2)})
		if m.held != 0 {
			t.Errorf("mode %d: %d bytes are held after the last round, want 0", mode, m.held)
		}
	}
}

// Work is measured under the lock only: neither the wait for other workers nor a contribution that
// waits for its turn. In a small shard only the closing contribution's is.
func TestWorkIsMeasured(t *testing.T) {
	for _, tc := range []struct {
		values int
		apply  time.Duration
	}{{1, 5}, {quickValues, 5}, {quickValues + 1, 10}} {
		m := &handClock{now: 1000, cost: 5} // of each reading, so work between two readings takes 5
		s := dense(t, 3, make([]float32, tc.values)...)
		s.cfg.Meter = m
		push := func(at int64, rank int) {
			m.now = at
			c := contribution(s, rank, 0, make([]float32, tc.values)...)
			c.Arrived = at
			mustPush(t, s, c, Held)
		}
		push(1000, 1)
		_, words := classOf((4*tc.values + 7) / 8)
		if want := int64(8 * words); m.held != want {
			t.Errorf("%d values: %d bytes are held, want %d", tc.values, m.held, want)
		}
		push(2000, 0)
		if m.held != 0 {
			t.Errorf("%d values: %d bytes are held, want 0", tc.values, m.held)
		}
		push(3000, 2)
		m.want(t, fmt.Sprint(tc.values, " values"), Timing{Duration: 2010, Apply: tc.apply, Gap: 1000, Last: node(2)})
	}
}

func TestRoundsThatChargeNobody(t *testing.T) {
	s, m := timed(t, 1, wire.ModeSync)
	mustPush(t, s, came(s, 990, 0, 0), Held)
	m.want(t, "one worker", Timing{Duration: 10})

	s, m = timed(t, 2, wire.ModeAsync)
	mustPush(t, s, came(s, 990, 1, 0), Held)
	mustPush(t, s, came(s, 980, 0, 0), Held)
	m.want(t, "asynchronous", Timing{Duration: 10}, Timing{Duration: 20})

	s, m = timed(t, 3, wire.ModeSync) // the two that are left were there when the round opened
	for _, rank := range []int{0, 1} {
		mustPush(t, s, came(s, 1001, rank, 0), Held)
		mustPush(t, s, came(s, 1002+int64(rank), rank, 1), Held)
	}
	m.now = 5000
	members(2, s, 0, 1)(t)
	m.want(t, "the third was lost", Timing{Duration: 3999}, Timing{})

	s, m = timed(t, 2, wire.ModeSync) // dropped contributions are of no round
	mustPush(t, s, came(s, 1001, 1, 0), Held)
	if err := s.WriteState(7, nil, []float32{3}); err != nil {
		t.Fatal(err)
	}
	if m.held != 0 {
		t.Errorf("after a load: %d bytes are held, want 0", m.held)
	}
	c0, c1 := came(s, 1010, 0, 7), came(s, 1020, 1, 7)
	mustPush(t, s, c0, Held)
	m.now = 1020
	mustPush(t, s, c1, Held)
	m.want(t, "after a load", Timing{Duration: 10, Gap: 10, Last: node(1)})
	mustPush(t, s, came(s, 1030, 1, 8), Held)
	s.Forget(errors.New("moved"))
	if m.held != 0 {
		t.Errorf("after Forget: %d bytes are held, want 0", m.held)
	}
}

// Whatever comes in whatever order, the charge is the difference of the two latest times.
func TestGapsAreThoseOfTheTwoLatest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		workers := 2 + random.IntN(6)
		s, m := timed(t, workers, wire.ModeSync)
		opened, ahead := int64(0), map[int]int64{} // by rank: when its next contribution came
		for round := range uint64(20) {
			times := make([]int64, workers)
			base := m.now
			for rank := range times {
				times[rank] = base + random.Int64N(1000)
				if at, early := ahead[rank]; early {
					times[rank] = max(at, opened)
				}
			}
			before := ahead
			ahead = map[int]int64{}
			order := random.Perm(workers)
			for i, rank := range order {
				if _, early := before[rank]; !early {
					m.now = max(m.now, times[rank])
					mustPush(t, s, came(s, times[rank], rank, round), Held)
				}
				if i+1 < workers && random.IntN(4) == 0 && len(before) == 0 {
					ahead[rank] = times[rank] + 1
					mustPush(t, s, came(s, ahead[rank], rank, round+1), Held)
				}
			}
			last := slices.Max(times)
			rank := slices.Index(times, last)
			sorted := slices.Sorted(slices.Values(times))
			between := m.now - opened
			opened = m.now
			want := Timing{Duration: time.Duration(m.now - sorted[0]), Gap: time.Duration(last - sorted[workers-2]), Last: node(rank)}
			if round > 0 && int64(want.Gap) < between/100 {
				want.Gap = 0
			}
			if want.Gap == 0 {
				want.Last = 0
			}
			m.want(t, fmt.Sprintf("round %d of %d workers, times %v", round, workers, times), want)
		}
	}
}

// Measuring allocates nothing.
func TestMeasuringDoesNotAllocate(t *testing.T) {
	s, m := timed(t, 2, wire.ModeSync)
	m.rounds = make([]Timing, 0, 4096)
	round := uint64(0)
	step := func() {
		for _, rank := range []int{1, 0} {
			c := Contribution{Generation: 1, Node: node(rank), Seq: round + 1, Round: round, Weight: 1, Data: s.cfg.Pool.Get(4)}
			if status, err := s.Push(c); status != Held || err != nil {
				t.Fatal(status, err)
			}
		}
		round++
		m.rounds = m.rounds[:0]
	}
	step()
	if got := alloctest.PerRun(50, step); got != 0 {
		t.Errorf("allocations of a round: got %v, want 0", got)
	}
}

// A watch is a Meter on real time.
type watch struct {
	began  time.Time
	rounds int
}

func (w *watch) Now() int64             { return int64(time.Since(w.began)) }
func (w *watch) Closed(*Config, Timing) { w.rounds++ }
func (w *watch) Hold(int64)             {}

// BenchmarkMeter is what measuring costs: compare measured=true with false.
//
//	go test ./internal/store/shard -bench Meter
func BenchmarkMeter(b *testing.B) {
	for _, workers := range []int{1, 8} {
		for _, n := range []int{256, 1 << 14} {
			for _, measured := range []bool{false, true} {
				b.Run(fmt.Sprintf("workers=%d/floats=%d/measured=%t", workers, n, measured), func(b *testing.B) {
					s := dense(b, workers, make([]float32, n)...)
					if measured {
						s.cfg.Meter = &watch{began: time.Now()}
					}
					round := uint64(0)
					for b.Loop() {
						for r := range workers {
							c := Contribution{Generation: 1, Node: node(r), Seq: round + 1, Round: round, Weight: 1, Data: s.cfg.Pool.Get(4 * n), Arrived: int64(round)}
							if status, err := s.Push(c); status != Held || err != nil {
								b.Fatal(status, err)
							}
						}
						round++
					}
				})
			}
		}
	}
}
