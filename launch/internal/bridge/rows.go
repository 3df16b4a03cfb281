package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/kvstore"
)

// rows knows how long the rows of keys are.
type rows struct {
	mu     sync.Mutex
	rowLen map[string]int
}

// declared keeps the length of a key's rows.
func (r *rows) declared(key string, rowLen int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rowLen == nil {
		r.rowLen = map[string]int{}
	}
	r.rowLen[key] = rowLen
}

// of returns the length of a key's rows.
func (r *rows) of(op, key string) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.rowLen[key]
	if !ok {
		return 0, &classError{kvstore.ErrUnknownKey, fmt.Errorf("bridge: %s: key %q is no table of this session; declare it by init with the form rows, or by table", op, shorten(key, 256))}
	}
	return n, nil
}

// tableArguments are those of the operation table.
type tableArguments struct {
	Key         string `json:"key"`
	RowLen      int    `json:"row_len"`
	Rows        int64  `json:"rows"`
	MaxRows     int64  `json:"max_rows"`
	Initializer struct {
		Name      string  `json:"name"`
		Low       float64 `json:"low"`
		High      float64 `json:"high"`
		Mean      float64 `json:"mean"`
		Deviation float64 `json:"deviation"`
		Seed      uint64  `json:"seed"`
	} `json:"initializer"`
}

// makeTable is the operation table.
func makeTable(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	var a tableArguments
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	store, err := s.member.get()
	if err != nil {
		return nil, err
	}
	i := kvstore.Initializer(a.Initializer)
	if err := i.Validate(); err != nil {
		return nil, usage("bridge: table: key %q: %w", shorten(a.Key, 256), err)
	}
	if err := store.InitTable(ctx, a.Key, kvstore.Table{Rows: a.Rows, RowLen: a.RowLen, MaxRows: a.MaxRows, Initializer: i}); err != nil {
		return nil, err
	}
	s.rows.declared(a.Key, a.RowLen)
	return nil, nil
}

// rowsArguments are those of push_rows and pull_rows.
type rowsArguments struct {
	Key    string   `json:"key"`
	Region uint32   `json:"region"`
	IDs    int      `json:"ids"`
	N      int      `json:"n"`
	Values int      `json:"values"`
	Weight *float32 `json:"weight"`
	// Examples are those of the contribution, where no sampler counts them.
	Examples uint32 `json:"examples"`
	// Factor multiplies the learning rate of the servers' optimizer in this round; 0: 1.
	Factor float64 `json:"factor"`
}

// slots returns the row numbers and the values of a request, and what gives their region back.
func (a *rowsArguments) slots(op string, s *session) (ids []int64, values []float32, giveBack func(), err error) {
	rowLen, err := s.rows.of(op, a.Key)
	if err != nil {
		return nil, nil, nil, err
	}
	idSlot, r, err := s.memory.slot(a.Region, a.IDs)
	if err != nil {
		return nil, nil, nil, err
	}
	giveBack = func() {
		if values != nil {
			s.settleSlot(r, a.Region, a.Values)
		}
		s.memory.giveBack(r)
	}
	values, again, err := s.memory.slot(a.Region, a.Values)
	if err != nil {
		giveBack()
		return nil, nil, nil, err
	}
	s.memory.giveBack(again)
	ids = integers(idSlot)
	if a.N < 0 || a.N > len(ids) || a.N > len(values)/rowLen || a.IDs == a.Values {
		giveBack()
		return nil, nil, nil, usage("bridge: %s: key %q: got %d rows of %d values in slots %d and %d of region %d, want two slots, and at most %d rows in the first and %d in the second",
			op, shorten(a.Key, 256), a.N, rowLen, a.IDs, a.Values, a.Region, len(ids), len(values)/rowLen)
	}
	return ids[:a.N], values[:a.N*rowLen], giveBack, nil
}

// withRows carries out push_rows or pull_rows: call gets the numbers and the values.
func withRows(s *session, op string, args json.RawMessage, call func(store kvstore.Store, a *rowsArguments, ids []int64, values []float32) error) error {
	var a rowsArguments
	if err := arguments(args, &a); err != nil {
		return err
	}
	store, err := s.member.get()
	if err != nil {
		return err
	}
	ids, values, giveBack, err := a.slots(op, s)
	if err != nil {
		return err
	}
	defer giveBack()
	return call(store, &a, ids, values)
}

// pushRows is the operation push_rows.
func pushRows(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	return nil, withRows(s, "push_rows", args, func(store kvstore.Store, a *rowsArguments, ids []int64, values []float32) error {
		weight := float32(1)
		if a.Weight != nil {
			weight = *a.Weight
		}
		by, err := s.turns.contribution(store, weight, a.Examples, a.Factor)
		if err != nil {
			return fmt.Errorf("bridge: push_rows: %w", err)
		}
		count, err := s.turns.count(a.Key)
		if err != nil {
			return err
		}
		return by.push([]kvstore.Entry{{Key: a.Key}}, []*keyCount{count}, func(p kvstore.Pusher, _ []kvstore.Entry) error {
			return p.PushRows(ctx, a.Key, ids, values)
		})
	})
}

// pullRows is the operation pull_rows.
func pullRows(ctx context.Context, s *session, args json.RawMessage) (any, error) {
	return nil, withRows(s, "pull_rows", args, func(store kvstore.Store, a *rowsArguments, ids []int64, values []float32) error {
		return store.PullRows(ctx, a.Key, ids, values)
	})
}
