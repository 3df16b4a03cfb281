package kvstore_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

var drawn = kvstore.Initializer{Name: "normal", Mean: 1, Deviation: 0.5, Seed: 11}

// The first values of a row are the same in a store of this process and on any number of servers.
func TestFirstValuesDoNotDependOnServers(t *testing.T) {
	ctx := t.Context()
	ids := []int64{4, 3, 2, 1, 0, 99}
	var want []float32
	for servers := range 4 {
		kv := local(t, "", 1)
		if servers > 0 {
			kv = jobtest.New(t, jobtest.Config{Servers: servers}).Stores(t, "dist_sync")[0]
		}
		must(kv.InitTable(ctx, "counted", kvstore.Table{Rows: 100, RowLen: 7, Initializer: drawn}))
		must(kv.InitTable(ctx, "open", kvstore.Table{RowLen: 7, Initializer: drawn}))
		got := make([]float32, 2*7*len(ids))
		must(kv.PullRows(ctx, "counted", ids, got[:7*len(ids)]))
		must(kv.PullRows(ctx, "open", ids, got[7*len(ids):]))
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d servers: got first values %v, want %v as in this process", servers, got, want)
		}
	}
}

// Other tools find an open vocabulary's rows under its name, their IDs beside them in rising order.
func TestSaveWritesAnOpenVocabularyByID(t *testing.T) {
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "x.safetensors")
	kv := local(t, "adagrad", 3)
	must(kv.InitTable(ctx, "words", kvstore.Table{RowLen: 2}))
	must(kv.PushRows(ctx, "words", []int64{7, -1, 3}, []float32{7, 7, -1, -1, 3, 3}))
	must(kv.Save(ctx, file))
	f, err := checkpoint.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ids, sums := make([]int64, 3), make([]float32, 6)
	if err := errors.Join(f.ReadInt64s("words/ids", ids), f.ReadFloat32s("words/accumulator", sums)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids, []int64{3, 7, -1}) || !slices.Equal(sums, []float32{9, 9, 49, 49, 1, 1}) {
		t.Errorf("got IDs %v with sums of squares %v, want 3, 7 and -1 with 9, 49 and 1", ids, sums)
	}
	meta := maps.Clone(f.Metadata())
	for what, c := range map[string]struct {
		ids  []int64
		want string
	}{"twice": {[]int64{3, 3, 7}, "got 3 after 3"}, "falling": {[]int64{7, 3, 8}, "got 3 after 7"}, "fewer": {[]int64{7, 8}, `got I64 [2], want I64 [3]`}} {
		bad := filepath.Join(t.TempDir(), "bad.safetensors")
		x := []float32{1, 1, 1}
		must(checkpoint.Save(bad, meta, []checkpoint.Tensor{
			checkpoint.Float32s("x", []int{3}, x), checkpoint.Float32s("x/accumulator", []int{3}, x), checkpoint.Int64s("words/ids", []int{len(c.ids)}, c.ids),
			checkpoint.Float32s("words", []int{3, 2}, sums), checkpoint.Float32s("words/accumulator", []int{3, 2}, sums)}))
		if err := kv.Load(ctx, bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("load of IDs %v (%s): got error %v, want one with %q", c.ids, what, err, c.want)
		}
	}
	// The file's rows are all that there are after a load.
	must(kv.PushRows(ctx, "words", []int64{5}, []float32{1, 1}))
	must(kv.Load(ctx, file))
	usage, err := kv.Usage(ctx)
	if err != nil || usage[0].Rows != 3 {
		t.Errorf("rows after a load: got %+v and error %v, want 3", usage, err)
	}
	if err := kv.InitTable(ctx, "words", kvstore.Table{RowLen: 2, MaxRows: 5}); !errors.Is(err, kvstore.ErrConflict) {
		t.Errorf("init of another table after a load: got %v, want %v", err, kvstore.ErrConflict)
	}
}

// A state that comes without an optimizer's slots begins them as new rows do.
func TestLoadOfAnOpenVocabularyBeginsTheOptimizersState(t *testing.T) {
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "x.safetensors")
	bare := local(t, "", 1)
	must(bare.InitTable(ctx, "words", kvstore.Table{RowLen: 1, Initializer: drawn}))
	must(bare.PushRows(ctx, "words", []int64{7}, []float32{5}))
	must(bare.Save(ctx, file))
	kv := local(t, "", 1)
	must(kv.SetOptimizer(ctx, optim.Config{Name: "adagrad", LearningRate: 1, InitialAccumulator: 9}))
	must(kv.Load(ctx, file))
	must(kv.PushRows(ctx, "words", []int64{7}, []float32{4}))
	out := make([]float32, 1)
	must(kv.PullRows(ctx, "words", []int64{7}, out))
	if d := out[0] - (5 - 4.0/5); d < -1e-6 || d > 1e-6 {
		t.Errorf("row 7: got %v, want %v: 5 less 4/√(9+16)", out[0], 5-4.0/5)
	}
}

// Workers that describe one table in two ways are told so.
func TestWorkersMustAgreeOnATable(t *testing.T) {
	stores := jobtest.New(t, jobtest.Config{Workers: 2}).Stores(t, "dist_sync")
	must(stores[0].InitTable(t.Context(), "words", kvstore.Table{RowLen: 2}))
	err := stores[1].InitTable(t.Context(), "words", kvstore.Table{RowLen: 2, Initializer: drawn})
	if !errors.Is(err, kvstore.ErrConflict) || !strings.Contains(err.Error(), `"words"`) {
		t.Errorf("another table on another worker: got %v, want %v with the key's name", err, kvstore.ErrConflict)
	}
}
