package kvstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
)

// saved is an entry of a file's list of keys.
type saved map[string]any

// with is the entry with other fields.
func (s saved) with(pairs ...any) saved {
	s = maps.Clone(s)
	for i := 0; i < len(pairs); i += 2 {
		s[pairs[i].(string)] = pairs[i+1]
	}
	return s
}

// A file whose list of keys says what cannot be, or what its tensors are not, is refused, and
// nothing is loaded from it.
func TestAFileWithBadMetadataIsRefused(t *testing.T) {
	dense := saved{"name": "x", "form": "dense", "size": 6, "round": 3}
	rows := dense.with("form", "rows", "row_length", 2)
	open := rows.with("form", "open")
	six := []float32{1, 2, 3, 4, 5, 6}
	x6, x32 := checkpoint.Float32s("x", []int{6}, six), checkpoint.Float32s("x", []int{3, 2}, six)
	ids := func(all ...int64) checkpoint.Tensor { return checkpoint.Int64s("x/ids", []int{len(all)}, all) }
	for _, c := range []struct {
		name    string
		keys    []saved
		tensors []checkpoint.Tensor
		want    string // empty: it is good
	}{
		{"dense", []saved{dense}, []checkpoint.Tensor{x6}, ""},
		{"rows", []saved{rows}, []checkpoint.Tensor{x32}, ""},
		{"open", []saved{open}, []checkpoint.Tensor{x32, ids(1, 2, 9)}, ""},
		{"open and empty", []saved{open.with("size", 0)}, []checkpoint.Tensor{checkpoint.Float32s("x", []int{0, 2}, nil), ids()}, ""},
		{"an average", []saved{dense.with("average", true)}, []checkpoint.Tensor{x6}, ""},
		{"a name of 1024 bytes", []saved{dense.with("name", strings.Repeat("n", 1024))}, []checkpoint.Tensor{checkpoint.Float32s(strings.Repeat("n", 1024), []int{6}, six)}, ""},

		{"no name", []saved{dense.with("name", "")}, []checkpoint.Tensor{x6}, `paragon.keys in the metadata: entry 0: got an empty name, want 1 to 1024 bytes`},
		{"a long name", []saved{dense.with("name", strings.Repeat("n", 1025))}, []checkpoint.Tensor{x6}, "got a name of 1025 bytes, want 1 to 1024"},
		{"a name twice", []saved{dense, dense}, []checkpoint.Tensor{x6}, `entry 1: got the name "x" twice`},
		{"no values", []saved{dense.with("size", 0)}, []checkpoint.Tensor{checkpoint.Float32s("x", []int{0}, nil)}, `key "x": got form "dense", 0 values in rows of 0`},
		{"rows without values", []saved{rows.with("size", 0)}, []checkpoint.Tensor{checkpoint.Float32s("x", []int{0, 2}, nil)}, `got form "rows", 0 values in rows of 2`},
		{"more values than memory", []saved{dense.with("size", uint64(1)<<60)}, []checkpoint.Tensor{x6}, "1152921504606846976 values in rows of 0"},
		{"a form of its own", []saved{dense.with("form", "sparse")}, []checkpoint.Tensor{x6}, `got form "sparse"`},
		{"no form", []saved{dense.with("form", "")}, []checkpoint.Tensor{x6}, `got form ""`},
		{"dense in rows", []saved{dense.with("row_length", 2)}, []checkpoint.Tensor{x32}, `got form "dense", 6 values in rows of 2`},
		{"rows of no length", []saved{rows.with("row_length", 0)}, []checkpoint.Tensor{x6}, `got form "rows", 6 values in rows of 0`},
		{"an open key in rows of no length", []saved{open.with("row_length", 0)}, []checkpoint.Tensor{x6}, `got form "open", 6 values in rows of 0`},
		{"half a row", []saved{rows.with("row_length", 4)}, []checkpoint.Tensor{x32}, "6 values in rows of 4"},
		{"an average of rows", []saved{rows.with("average", true)}, []checkpoint.Tensor{x32}, "6 values in rows of 2, average true"},
		{"a dense key with a table", []saved{dense.with("table", "{}")}, []checkpoint.Tensor{x6}, `the table "{}": got one for a dense key, want none`},
		{"a table that is none", []saved{open.with("table", `{"a":1}`)}, []checkpoint.Tensor{x32, ids(1, 2, 9)}, `unknown field "a"`},
		{"too many slots", []saved{dense.with("slots", []string{"a", "b", "c", "d", "e"})}, []checkpoint.Tensor{x6}, "got 5 slots, want at most 4"},
		{"no tensor", []saved{dense}, nil, `"x"`},
		{"a tensor of another shape", []saved{dense.with("size", 5)}, []checkpoint.Tensor{x6}, `tensor "x": got F32 [6], want F32 [5]`},
		{"rows that are not in rows", []saved{rows}, []checkpoint.Tensor{x6}, `tensor "x": got F32 [6], want F32 [3 2]`},
		{"a tensor of another type", []saved{dense}, []checkpoint.Tensor{checkpoint.Int64s("x", []int{6}, make([]int64, 6))}, `tensor "x": got I64 [6], want F32 [6]`},
		{"a slot that is not there", []saved{dense.with("slots", []string{"mean"})}, []checkpoint.Tensor{x6}, `"x/mean"`},
		{"IDs that are not there", []saved{open}, []checkpoint.Tensor{x32}, `"x/ids"`},
		{"fewer IDs than rows", []saved{open}, []checkpoint.Tensor{x32, ids(1, 2)}, `tensor "x/ids": got I64 [2], want I64 [3]`},
		{"an ID twice", []saved{open}, []checkpoint.Tensor{x32, ids(1, 2, 2)}, `tensor "x/ids": [2]: got 2 after 2, want increasing IDs`},
		{"IDs that do not rise as numbers without sign", []saved{open}, []checkpoint.Tensor{x32, ids(-1, 2, 9)}, "[1]: got 2 after 18446744073709551615"},
	} {
		file := filepath.Join(t.TempDir(), "x.safetensors")
		keys, err := json.Marshal(c.keys)
		must(err)
		must(checkpoint.Save(file, map[string]string{"paragon.store": "1", "paragon.keys": string(keys)}, c.tensors))
		_, err = kvstore.Declarations(file)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

// What a store has and a file lacks, or has otherwise, is said with both.
func TestAFileOfOtherKeysIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.safetensors")
	kv := local(t, "", 3)
	must(kv.Save(t.Context(), file))
	must(kv.Init(t.Context(), "y", make([]float32, 2)))
	if err := kv.Load(t.Context(), file); !errors.Is(err, kvstore.ErrUnknownKey) || !strings.Contains(err.Error(), `key "y"`) {
		t.Errorf("a key that the file lacks: got %v, want %v that names it", err, kvstore.ErrUnknownKey)
	}
	for name, meta := range map[string]map[string]string{
		`paragon.store in the metadata: got "", want "2" or "1"`:  nil,
		`paragon.store in the metadata: got "3", want "2" or "1"`: {"paragon.store": "3"},
		"paragon.keys in the metadata: ":                          {"paragon.store": "1", "paragon.keys": "{"},
		`paragon.optimizer in the metadata: optim: `:              {"paragon.store": "1", "paragon.keys": "[]", "paragon.optimizer": `{"name":"x"}`},
		fmt.Sprintf("load %s: key \"x\": unknown key", file):      {"paragon.store": "1", "paragon.keys": "[]"},
	} {
		must(checkpoint.Save(file, meta, []checkpoint.Tensor{checkpoint.Float32s("x", []int{1}, []float32{1})}))
		if err := local(t, "", 3).Load(t.Context(), file); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v\nwant %s", err, name)
		}
	}
}
