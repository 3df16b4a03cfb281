package telemetry

import (
	"math"
	"time"
)

// RecentBlame is how far back BlamedSince reaches, in seconds.
const RecentBlame = 64

// blamed is what all servers charge one worker with.
type blamed struct {
	rounds  uint64 // since the servers' begin
	seconds float64
	recent  [RecentBlame]blameSecond // by second of the History
}

// A blameSecond is what was charged within one second, as far as records came in it.
type blameSecond struct {
	second  int64
	rounds  uint64
	seconds float64
}

// addBlames adds what a server's record says of workers that this History knows. What was charged before the server's first record here has no time.
func (h *History) addBlames(server *past, now time.Duration, blames []Blame, isNew bool) {
	for _, b := range blames {
		p := h.nodes[b.Node]
		if p == nil {
			continue
		}
		if server.charged == nil {
			server.charged = make(map[uint64]Blame)
		}
		before := server.charged[b.Node]
		if b.Rounds < before.Rounds || b.Seconds < before.Seconds {
			continue
		}
		server.charged[b.Node] = b
		rounds, seconds := b.Rounds-before.Rounds, b.Seconds-before.Seconds
		p.blamed.rounds += rounds
		p.blamed.seconds += seconds
		if !isNew {
			p.blamed.add(now, rounds, seconds)
		}
	}
}

func (b *blamed) add(now time.Duration, rounds uint64, seconds float64) {
	second := int64(now / time.Second)
	s := &b.recent[second%RecentBlame]
	if s.second != second {
		*s = blameSecond{second: second}
	}
	s.rounds += rounds
	s.seconds += seconds
}

// Blamed is what all servers have charged a worker with since their begin.
func (h *History) Blamed(node uint64) (rounds uint64, seconds float64) {
	if p := h.nodes[node]; p != nil {
		return p.blamed.rounds, p.blamed.seconds
	}
	return 0, 0
}

// BlamedWithin is what all servers have charged a worker with within the time before at, which is at most RecentBlame - 1 seconds.
func (h *History) BlamedWithin(at time.Time, within time.Duration, node uint64) (rounds uint64, seconds float64) {
	p := h.nodes[node]
	if p == nil {
		return 0, 0
	}
	now := at.Sub(h.begin)
	for _, s := range p.blamed.recent {
		if s.second > int64((now-within)/time.Second) && s.second <= int64(now/time.Second) {
			rounds += s.rounds
			seconds += s.seconds
		}
	}
	return rounds, seconds
}

// GrownWithin is how much a counter of a process has grown within the time before at, at most FinePoints seconds, and in how many seconds of it that
// is known; NaN: its past is not kept, or not known.
func (h *History) GrownWithin(at time.Time, within time.Duration, node uint64, c Column) (growth float64, over time.Duration) {
	p := h.nodes[node]
	if p == nil {
		return math.NaN(), 0
	}
	r := &p.fine
	for i := range r.columns {
		column := &r.columns[i]
		if column.slot != c.slot() {
			continue
		}
		from := max(r.oldest, int64((at.Sub(h.begin)-within)/r.step))
		for ; from < r.next; from++ {
			if v := column.at(r, from); !math.IsNaN(v) {
				return p.values[c.slot()] - v, p.at - time.Duration(from)*r.step
			}
		}
	}
	return math.NaN(), 0
}
