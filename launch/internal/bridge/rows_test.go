package bridge

import (
	"errors"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

// Rows travel through the slots of a region, in a job of one worker whose pushes replace rows.
func TestRowsTravelThroughSlots(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	p := play(t, kv, 4096)
	initializer := map[string]any{"name": "uniform", "low": 2, "high": 2}
	for key, rows := range map[string]int{"words": 0, "users": 10} {
		if err := p.ask(t.Context(), "table", map[string]any{"key": key, "row_len": 3, "rows": rows, "initializer": initializer}, nil); err != nil {
			t.Fatal(err)
		}
		ids, r, err := p.s.memory.slot(p.region, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.s.memory.giveBack(r)
		values := p.slot(1)
		copy(integers(ids), []int64{7, 1, 7})
		if key == "words" {
			copy(integers(ids), []int64{-1 << 62, 1, -1 << 62})
		}
		args := map[string]any{"key": key, "region": p.region, "ids": 0, "n": 3, "values": 1, "weight": 1}
		if err := p.ask(t.Context(), "pull_rows", args, nil); err != nil || !slices.Equal(values[:10], []float32{2, 2, 2, 2, 2, 2, 2, 2, 2, 0}) {
			t.Errorf("%s: pulled %v and error %v, want three rows of first values", key, values[:10], err)
		}
		copy(values, []float32{1, 2, 3, 4, 5, 6, 10, 20, 30})
		if err := p.ask(t.Context(), "push_rows", args, nil); err != nil {
			t.Fatal(err)
		}
		clear(values)
		if err := p.ask(t.Context(), "pull_rows", args, nil); err != nil || !slices.Equal(values[:9], []float32{11, 22, 33, 4, 5, 6, 11, 22, 33}) {
			t.Errorf("%s: pulled %v and error %v, want the rows that were pushed, duplicates added", key, values[:9], err)
		}
		for name, value := range map[string]any{"n": 33, "ids": 1, "values": 0, "region": 99, "weight": -1, "factor": -1} {
			bad := map[string]any{"key": key, "region": p.region, "ids": 0, "n": 3, "values": 1}
			bad[name] = value
			if err := p.ask(t.Context(), "push_rows", bad, nil); !errors.Is(err, errUsage) {
				t.Errorf("%s: push_rows with %s %v: got error %v, want one of class Usage", key, name, value, err)
			}
		}
		if users := r.users; users != 0 {
			t.Errorf("%s: the region has %d users when no request is under way, want none", key, users)
		}
	}
	if err := p.ask(t.Context(), "table", map[string]any{"key": "x", "row_len": 3, "initializer": map[string]any{"name": "ones"}}, nil); !errors.Is(err, errUsage) {
		t.Errorf("a table with an unknown initializer: got error %v, want one of class Usage", err)
	}
	if err := p.ask(t.Context(), "table", map[string]any{"key": "x", "row_len": 0}, nil); !errors.Is(err, kvstore.ErrSize) {
		t.Errorf("a table of empty rows: got error %v, want ErrSize", err)
	}
}
