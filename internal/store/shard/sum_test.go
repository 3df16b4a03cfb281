package shard

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// The order of float32 additions is that of the calls; a group is added up by itself, and then
// added when another begins.
func TestTheSumKeepsItsOrder(t *testing.T) {
	const big = 1 << 24
	cfg := denseConfig(1)
	add := func(anyOrder bool, slots ...slot) float32 {
		s := sum{cfg: cfg}
		for i := range slots {
			last := i+1 == len(slots)
			if s.host.begun() && s.host.group != slots[i].group {
				s.addHost(&addition{anyOrder: anyOrder})
			}
			s.add(&slots[i], &addition{anyOrder: anyOrder, last: last})
		}
		s.addHost(&addition{anyOrder: anyOrder, last: true})
		defer s.reset()
		return s.values()[0]
	}
	x := func(group uint32, value float32) slot { return slotWith(cfg, 0, group, value) }
	for _, tt := range []struct {
		name     string
		anyOrder bool
		slots    []slot
		want     float32
	}{
		{"one after the other", false, []slot{x(0, big), x(0, 1), x(0, 1)}, big},
		{"the small ones first", false, []slot{x(0, 1), x(0, 1), x(0, big)}, big + 2},
		{"the small ones in a group", false, []slot{x(0, big), x(2, 1), x(2, 1)}, big + 2},
		{"two groups", false, []slot{x(1, big), x(1, 1), x(3, 1), x(3, 1)}, big + 2},
		{"groups that do not matter", true, []slot{x(0, big), x(2, 1), x(2, 1)}, big},
	} {
		if got := add(tt.anyOrder, tt.slots...); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := cfg.Pool.Taken(); got != 0 {
		t.Errorf("%d bytes are still taken", got)
	}
}

func TestTheFirstContributionBecomesTheSum(t *testing.T) {
	cfg := denseConfig(2)
	s := sum{cfg: cfg}
	first := slotWith(cfg, 0, 0, 1, 2)
	data := first.payload.data
	s.add(&first, &addition{})
	if s.data != data {
		t.Error("the first contribution was copied")
	}
	second := slotWith(cfg, 1, 0, 10, 20)
	s.add(&second, &addition{last: true})
	if got, want := s.values(), []float32{11, 22}; !slices.Equal(got, want) || s.weight != 2 {
		t.Errorf("got %v of weight %v, want %v of weight 2", got, s.weight, want)
	}
	s.reset()
	if s.data != nil || s.weight != 0 || cfg.Pool.Taken() != 0 {
		t.Errorf("after reset: got data %v, weight %v, %d bytes taken, want none", s.data, s.weight, cfg.Pool.Taken())
	}
}

func TestARefusedContributionIsNotAdded(t *testing.T) {
	cfg := denseConfig(1)
	s := sum{cfg: cfg}
	x := slot{seq: 1, weight: 5, verdict: notFinite}
	s.add(&x, &addition{})
	if s.begun() || s.weight != 0 || s.fate != sumRefused {
		t.Errorf("got sum %v, weight %v and fate %d, want none and %d", s.data, s.weight, s.fate, sumRefused)
	}
}

// A row sum costs by the rows it touches, so what it remembers of them must be gone after a round.
func TestARowSumIsEmptyAfterReset(t *testing.T) {
	cfg := denseConfig(8)
	cfg.Form, cfg.RowLen = wire.FormRows, 2
	s := sum{cfg: cfg}
	push := func(values []float32, rows ...int64) {
		data := cfg.Pool.Get(RowsPayloadSize(len(rows), 2))
		p := payload{data: data, count: len(rows)}
		r, v := p.rowValues(2)
		copy(r, rows)
		copy(v, values)
		x := slot{seq: 1, weight: 1, payload: p}
		s.add(&x, &addition{rows: 4})
	}
	push([]float32{1, 2, 3, 4}, 1, 3)
	push([]float32{10, 20}, 3)
	rows, values := s.rowTotal()
	if !slices.Equal(rows, []int64{1, 3}) || !slices.Equal(values, []float32{1, 2, 13, 24}) {
		t.Errorf("got rows %v with %v, want 1 and 3 with [1 2 13 24]", rows, values)
	}
	s.reset()
	if rows, _ := s.rowTotal(); len(rows) != 0 || slices.ContainsFunc(s.rows.place, func(k int32) bool { return k != 0 }) {
		t.Errorf("after reset: got rows %v in places %v, want none", rows, s.rows.place)
	}
}
