//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/cuda/nvrtc"
)

// step launches a few kernels of each kind through the driver and returns what the last one made.
func step(t *testing.T, ctx *drv.Context, set *kernels.Set) []float32 {
	t.Helper()
	const rows, c = 64, 8
	out := make([]float32, rows*c)
	err := ctx.Do(func() error {
		s, err := ctx.NewStream(0)
		if err != nil {
			return err
		}
		var memory []drv.Ptr
		room := func(bytes int64) drv.Ptr {
			p, e := ctx.Malloc(bytes)
			if e != nil && err == nil {
				err = e
			}
			memory = append(memory, p)
			return p
		}
		x, y, half := room(4*rows*c), room(4*rows*c), room(2*rows*c)
		gamma, beta, mean, invstd, workspace := room(4*c), room(4*c), room(4*c), room(4*c), room(set.BatchNormWorkspace(c))
		pinned, e := ctx.HostAlloc(4 * rows * c)
		if err = errors.Join(err, e); err != nil {
			return err
		}
		host := unsafe.Slice((*float32)(unsafe.Pointer(&pinned[0])), rows*c)
		for i := range host {
			host[i] = float32(i%7) - float32(i/c%5)
		}
		table, err := set.NewTable(s, []kernels.Tensor{{Type: kernels.BFloat16, K: rows, C: c, R: 1, S: 1, RowMajor: x, ChannelLast: half}})
		err = errors.Join(err,
			ctx.CopyToDevice(x, unsafe.Pointer(&pinned[0]), int64(len(pinned)), s),
			set.Fill(s, kernels.Float32, c, gamma, 1), set.Fill(s, kernels.Float32, c, beta, 0.5),
			set.Pack(s, table),
			set.BatchNorm(s, kernels.BatchNorm{Type: kernels.BFloat16, Rows: rows, C: c, X: half, Y: half, ReLU: true, Gamma: gamma, Beta: beta,
				Mean: mean, InvStd: invstd, Eps: 1e-5, Momentum: 0.1, Workspace: workspace}),
			set.Cast(s, kernels.Float32, kernels.BFloat16, rows*c, y, half),
			set.Add(s, kernels.Float32, rows*c, y, y, x, false),
			ctx.CopyToHost(unsafe.Pointer(&pinned[0]), y, int64(len(pinned)), s),
			ctx.Synchronize(s))
		copy(out, host)
		err = errors.Join(err, set.FreeTable(table), ctx.HostFree(pinned), ctx.DestroyStream(s))
		for _, p := range memory {
			err = errors.Join(err, ctx.Free(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestKernelsRunThroughTheDriverTheSameInAllOrders(t *testing.T) {
	var first []float32
	for _, order := range []int64{0, 1, 9, -1} {
		t.Run(fmt.Sprintf("order=%d", order), func(t *testing.T) {
			m := fake.New(t)
			m.Set("order", order)
			ctx := m.Context(0)
			set := load(t, ctx, nil)
			var launches []kernels.Launch
			set.Trace(func(l kernels.Launch) { launches = append(launches, l) })
			got := step(t, ctx, set)
			if first == nil {
				first = got
			}
			if !slices.Equal(got, first) {
				t.Errorf("got %v, want as in order 0: %v", got[:8], first[:8])
			}
			var names []string
			for _, l := range launches {
				names = append(names, l.Kernel)
			}
			want := []string{"fill_f32", "fill_f32", "pack", "bn_stats_bf16", "bn_finish", "bn_apply_bf16", "cast_bf16_f32", "add_f32"}
			if !slices.Equal(names, want) {
				t.Errorf("launched %v, want %v", names, want)
			}
			// 64 rows of 8 channels: bytes of the two images and of the four
			// statistics.
			if l := launches[5]; l.Read != 1024+4*32 || l.Written != 1024 {
				t.Errorf("%s reads %d and writes %d bytes, want 1152 and 1024", l.Kernel, l.Read, l.Written)
			}
		})
	}
}

func TestWhereThePTXIsRefusedTheSourceIsCompiled(t *testing.T) {
	m := fake.New(t)
	want := step(t, m.Context(0), load(t, m.Context(0), nil))
	for _, when := range []string{"ptx_error", "ptx_late_error"} {
		m.Set("ptx_error", 0)
		m.Set(when, 222)
		refused(t, m, want)
	}
}

func refused(t *testing.T, m *fake.Machine, want []float32) {
	t.Helper()
	lib, err := m.Search().Open(dl.NVRTC)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nvrtc.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	ctx := m.Context(0)
	if _, err := kernels.Load(ctx); !errors.Is(err, kernels.ErrNoKernels) {
		t.Errorf("without a compiler: got %v, want ErrNoKernels", err)
	}
	broken := func(string, [2]int) ([]byte, error) { return nil, errors.New("no such compiler") }
	if _, err := kernels.LoadWith(ctx, broken); !errors.Is(err, kernels.ErrNoKernels) {
		t.Errorf("with a compiler that does not work: got %v, want ErrNoKernels", err)
	}
	if got := step(t, ctx, load(t, ctx, kernels.NVRTC(c))); !slices.Equal(got, want) {
		t.Errorf("compiled from source: got %v, want %v", got[:8], want[:8])
	}
}

// A GPU from before the kernels' instructions is refused by name, not by pages of a compiler's
// complaints.
func TestAGPUThatIsTooOldIsRefused(t *testing.T) {
	m := fake.New(t)
	m.Set("compute", 75)
	called := false
	compile := func(string, [2]int) ([]byte, error) { called = true; return nil, errors.New("no such compiler") }
	_, err := kernels.LoadWith(m.Context(0), compile)
	if !errors.Is(err, kernels.ErrNoKernels) || !strings.Contains(err.Error(), "capability 7.5, want 8.0 or more") || called {
		t.Errorf("got %v (compiler called: %t), want ErrNoKernels that names 7.5 and 8.0", err, called)
	}
	m.Set("compute", 80)
	load(t, m.Context(0), nil)
}

func load(t *testing.T, ctx *drv.Context, compile kernels.Compiler) *kernels.Set {
	t.Helper()
	set, err := kernels.LoadWith(ctx, compile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}
