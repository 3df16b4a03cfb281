package cudnn

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// The heuristics' order is kept, each engine comes once, and what is not wanted or does not build
// is left out.
func TestWhichEnginesAreOffered(t *testing.T) {
	const half = "eng0 k2=17 k24=3, eng0 k2=18 k24=3"
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	wide := shape(BFloat16, 1, 3, 4, 4, 8, 3, 3, 1, 1)
	single := shape(Float32, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	with := func(c Conv, change func(*Conv)) Conv { change(&c); return c }
	for _, k := range []struct {
		name     string
		settings []any
		op       Op
		c        Conv
		want     string
	}{
		{"forward", nil, Forward, c, half + ", eng1, eng11, legacy algo 1"},
		{"backward, whose algorithm 0 of the older interface has no order", nil, BackwardWeight, c, half + ", eng1, eng11, legacy algo 1"},
		{"nondeterministic", nil, BackwardData, with(c, func(c *Conv) { c.NonDeterministic = true }),
			half + ", eng5, eng1, eng11, legacy algo 0, legacy algo 1"},
		{"channels that are no multiple of 8", nil, Forward, wide, "eng11, legacy algo 1"},
		{"float32 in full", nil, Forward, single, "eng11, legacy algo 0, legacy algo 1"},
		{"float32 as tf32", nil, Forward, with(single, func(c *Conv) { c.TF32 = true }), "eng3, eng11, legacy algo 0, legacy algo 1"},
		{"a heuristic without mode B", []any{"cudnn_heuristics_b", 0}, Forward, c, half + ", eng11, legacy algo 1"},
		{"a broken heuristic and a broken engine", []any{"cudnn_heuristics_b", 0, "cudnn_refusal", 4001}, Forward, c, half + ", eng11, legacy algo 1"},
		{"engines that do not say how they behave", []any{"cudnn_no_behavior", 1}, Forward, c, half + ", eng1, eng11, legacy algo 1"},
		{"heuristics that know nothing", []any{"cudnn_no_engines", 1}, Forward, c, "legacy algo 1"},
	} {
		t.Run(k.name, func(t *testing.T) {
			b := newBench(t, k.settings...)
			if got := engines(plans(b, func() ([]*Plan, error) { return b.h.Plans(k.op, k.c) })); got != k.want {
				t.Errorf("engines: got %s, want %s", got, k.want)
			}
		})
	}
}

// Plans that want too much workspace are left out, unless they are allowed it; without the older
// interface there are fewer.
func TestLimitsOfAHandle(t *testing.T) {
	b := newBench(t)
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	b.h.MaxWorkspace, b.h.Legacy = 4<<30, false
	if got, want := engines(plans(b, func() ([]*Plan, error) { return b.h.Forward(c) })), "eng0 k2=17 k24=3, eng0 k2=18 k24=3, eng13, eng1, eng11"; got != want {
		t.Errorf("engines with 4 GiB of workspace: got %s, want %s", got, want)
	}
	b.h.MaxWorkspace = 0
	if got, want := engines(plans(b, func() ([]*Plan, error) { return b.h.Forward(c) })), "eng11"; got != want {
		t.Errorf("engines without workspace: got %s, want %s", got, want)
	}
}

// Nothing to choose from is ErrNotSupported, with the reasons.
func TestNoEngineIsAnError(t *testing.T) {
	b := newBench(t)
	b.h.Legacy = false
	mixed := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	mixed.Out = Float16
	b.do(func() error {
		_, err := b.h.Forward(mixed)
		if !errors.Is(err, ErrNotSupported) || !strings.Contains(fmt.Sprint(err), "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE (3003): the tensors' types differ") ||
			!strings.Contains(fmt.Sprint(err), mixed.String()) {
			t.Errorf("got error %v, want ErrNotSupported with the shape and the library's reason", err)
		}
		var e *Error
		if !errors.As(err, &e) || e.Call != "cudnnBackendFinalize" {
			t.Errorf("got error %#v, want an *Error of cudnnBackendFinalize in it", err)
		}
		b.m.Set("cudnn_no_engines", 1)
		_, err = b.h.Forward(mixed)
		if !errors.Is(err, ErrNotSupported) || !strings.Contains(fmt.Sprint(err), "the heuristics know no engine") {
			t.Errorf("got error %v, want ErrNotSupported", err)
		}
		return nil
	})
}

// If what is left failed in another way than by not being supported, that is the error: nobody
// takes it for an ordinary answer.
func TestAFaultIsNotTakenForNotSupported(t *testing.T) {
	b := newBench(t, "cudnn_refusal", 4001)
	b.h.Legacy = false
	mixed := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	mixed.Out = Float16
	b.do(func() error {
		_, err := b.h.Forward(mixed)
		if errors.Is(err, ErrNotSupported) || !strings.Contains(fmt.Sprint(err), "eng7 for "+describe(Forward, mixed)+": CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED (4001)") {
			t.Errorf("got error %v, want eng7's fault, which is not ErrNotSupported", err)
		}
		return nil
	})
}

// A gradient of weights comes in float32 from bfloat16 images where the library can, else in
// bfloat16, and the plan says which.
func TestWeightGradientsInFloat32(t *testing.T) {
	c := shape(BFloat16, 2, 8, 5, 5, 8, 3, 3, 1, 1)
	c.Weight = Float32
	r := rand.New(rand.NewPCG(7, 8))
	for _, can := range []bool{true, false} {
		t.Run(fmt.Sprint(can), func(t *testing.T) {
			b := newBench(t, "cudnn_wgrad_float32", map[bool]int{true: 1}[can])
			all := plans(b, func() ([]*Plan, error) { return b.h.BackwardWeightAny(c) })
			if got := all[0].Conv().Weight == Float32; got != can {
				t.Errorf("the first plan, %s, writes float32: got %v, want %v", all[0].Engine(), got, can)
			}
			if got := all[len(all)-1].Conv().Weight; got != BFloat16 {
				t.Errorf("the last plan, %s, writes %v, want bfloat16", all[len(all)-1].Engine(), got)
			}
			for _, p := range all {
				d := newPass(b, r, BackwardWeight, p.Conv())
				near(t, p.Engine()+" for "+describe(d.op, d.c), d.run(b, p), d.want(), ulp(d.c.Weight))
			}
			b.do(func() error {
				all, err := b.h.BackwardWeight(c)
				if errors.Is(err, ErrNotSupported) == can {
					t.Errorf("BackwardWeight in float32: got error %v", err)
				}
				return Release(all, nil)
			})
		})
	}
}

// Where the library finds fault with a form of a question, in place of saying that it is not
// supported, the other form is taken all the same.
func TestFaultFoundWithOneFormLeavesTheOther(t *testing.T) {
	b := newBench(t, "cudnn_mixed_types", 2000, "cudnn_beta", 2000)
	c := shape(BFloat16, 2, 8, 5, 5, 8, 3, 3, 1, 1)
	sum := c
	sum.Accumulate = true
	c.Weight = Float32
	all := plans(b, func() ([]*Plan, error) { return b.h.BackwardWeightAny(c) })
	if got := all[0].Conv().Weight; got != BFloat16 {
		t.Errorf("the first plan, %s, writes %v, want bfloat16", all[0].Engine(), got)
	}
	b.do(func() error {
		p, err := (&Tuner{Handle: b.h, Stream: b.s, Repeat: 1, Any: true}).Conv(BackwardWeight, c)
		if err != nil {
			return err
		}
		if got := p.Conv().Weight; got != BFloat16 {
			t.Errorf("the tuner takes %s to %v, want bfloat16", p.Engine(), got)
		}
		return p.Close()
	})
	if got, want := engines(plans(b, func() ([]*Plan, error) { return b.h.BackwardData(sum) })), "legacy algo 1"; got != want {
		t.Errorf("a sum that the graph interface finds fault with: got %q, want %q", got, want)
	}
	b.do(func() error {
		b.h.Legacy = false
		_, err := b.h.BackwardData(sum)
		if err == nil || !Refused(err) {
			t.Errorf("a sum that nobody takes: got error %v, want one of the library's", err)
		}
		return nil
	})
}

// By default a plan gives the same bits each time. Those that do not come only when asked for.
func TestDefaultPlansRepeatBitForBit(t *testing.T) {
	b := newBench(t)
	c := shape(Float32, 2, 16, 5, 5, 8, 3, 3, 1, 1)
	for _, nondeterministic := range []bool{false, true} {
		c.NonDeterministic = nondeterministic
		d := newPass(b, rand.New(rand.NewPCG(9, 10)), BackwardWeight, c)
		differ := ""
		for _, p := range plans(b, func() ([]*Plan, error) { return b.h.BackwardWeight(c) }) {
			first := encode(Float32, d.run(b, p))
			if !bytes.Equal(first, encode(Float32, d.run(b, p))) {
				differ += p.Engine() + ", "
				if !slices.Contains(p.Notes(), NoteNonDeterministic) {
					t.Errorf("%s has notes %v and gives other numbers the second time", p.Engine(), p.Notes())
				}
			}
		}
		if want := map[bool]string{true: "eng5, legacy algo 0, "}[nondeterministic]; differ != want {
			t.Errorf("NonDeterministic %v: engines whose second result differs: got %q, want %q", nondeterministic, differ, want)
		}
	}
}

// Float32 loses no digits unless TF32 is asked for, and then it does.
func TestFloat32IsExactUnlessTF32(t *testing.T) {
	b := newBench(t)
	c := shape(Float32, 1, 8, 4, 4, 4, 3, 3, 1, 1)
	d := newPass(b, rand.New(rand.NewPCG(11, 12)), Forward, c)
	want := d.want()
	far := func(p *Plan) bool {
		got := d.run(b, p)
		for i := range got {
			if diff := got[i] - want[i]; diff > 1e-5 || diff < -1e-5 {
				return true
			}
		}
		return false
	}
	for _, p := range plans(b, func() ([]*Plan, error) { return b.h.Forward(c) }) {
		if far(p) {
			t.Errorf("%s is off by more than 1e-5", p.Engine())
		}
	}
	c.TF32 = true
	lossy := ""
	for _, p := range plans(b, func() ([]*Plan, error) { return b.h.Forward(c) }) {
		if far(p) {
			lossy += p.Engine() + ", "
		}
	}
	if want := "eng3, legacy algo 0, legacy algo 1, "; lossy != want {
		t.Errorf("with TF32 off by more than 1e-5: got %q, want %q", lossy, want)
	}
}

// What no convolution can be is an error that names the field, its value and the shape.
func TestBadConvolutionsAreErrors(t *testing.T) {
	b := newBench(t)
	good := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	for _, k := range []struct {
		change func(*Conv)
		want   string
	}{
		{func(c *Conv) { c.N = 0 }, "N is 0, want 1"},
		{func(c *Conv) { c.K = -1 }, "K is -1, want 1"},
		{func(c *Conv) { c.C = math.MinInt }, "C is -"},
		{func(c *Conv) { c.Pad[1] = -1 }, "Pad[1] is -1, want 0"},
		{func(c *Conv) { c.Stride[0] = 0 }, "Stride[0] is 0, want 1"},
		{func(c *Conv) { c.R = 7 }, "the window 7×3 is larger than the padded image 6×6"},
		{func(c *Conv) { c.In = boolean }, "In has type boolean"},
		{func(c *Conv) { c.Out = 77 }, "Out has type DType(77)"},
		{func(c *Conv) { c.Compute = BFloat16 }, "Compute is bfloat16, want float32"},
	} {
		c := good
		k.change(&c)
		b.do(func() error {
			_, err := b.h.Forward(c)
			if err == nil || !strings.Contains(err.Error(), k.want) || errors.Is(err, ErrNotSupported) {
				t.Errorf("%v: got error %v, want %q", c, err, k.want)
			}
			return nil
		})
	}
	b.do(func() error {
		if _, err := b.h.Plans(7, good); err == nil || !strings.Contains(err.Error(), "Op(7)") {
			t.Errorf("Op(7): got error %v", err)
		}
		return nil
	})
}

// Run names the operand that cannot be, and the library's own refusal comes through with what it
// was about.
func TestRunRefusesWhatCannotBe(t *testing.T) {
	b := newBench(t)
	c := shape(BFloat16, 1, 8, 4, 4, 8, 3, 3, 1, 1)
	d := newPass(b, rand.New(rand.NewPCG(1, 1)), Forward, c)
	x, w, y := d.p[0], d.p[1], d.p[2]
	all := plans(b, func() ([]*Plan, error) { return b.h.Forward(c) })
	p, legacy := all[0], all[len(all)-1]
	workspace := b.room(p.Workspace())
	short := b.room(16)
	for _, k := range []struct {
		name               string
		workspace, x, w, y drv.Ptr
		want               string
	}{
		{"no x", workspace, 0, w, y, "x lies at 0x0"},
		{"w between addresses", workspace, x, w + 8, y, "w lies at"},
		{"no workspace", 0, x, w, y, "there is no workspace, and the plan wants"},
		{"y too short", workspace, x, w, short, "driver says"},
	} {
		for _, p := range []*Plan{p, legacy} {
			b.do(func() error {
				err := p.Run(b.s, k.workspace, k.x, k.w, k.y)
				if err == nil || !strings.Contains(err.Error(), k.want) || !strings.Contains(err.Error(), p.Engine()) || !strings.Contains(err.Error(), c.String()) {
					t.Errorf("%s with %s: got error %v, want %q with engine and shape", k.name, p.Engine(), err, k.want)
				}
				return nil
			})
		}
	}
	if n := len(b.m.Complaints()); n != 2 {
		t.Errorf("the fake driver complained %d times of memory that is too short, want 2", n)
	}
	b.do(func() error {
		fresh, err := b.h.Candidates(Forward, c)
		if err != nil {
			return err
		}
		if err := fresh[0].Run(b.s, workspace, x, w, y); err == nil || !strings.Contains(err.Error(), "is not built") {
			t.Errorf("a plan that is not built: got error %v", err)
		}
		if err := Release(fresh, nil); err != nil {
			return err
		}
		if err := fresh[0].Run(b.s, workspace, x, w, y); err == nil || !strings.Contains(err.Error(), "is closed") {
			t.Errorf("a closed plan: got error %v", err)
		}
		if err := fresh[0].Build(); err == nil || !strings.Contains(err.Error(), "is closed") {
			t.Errorf("building a closed plan: got error %v", err)
		}
		return fresh[0].Close() // again is harmless
	})
}

// A plan that ran once may be captured, and each launch of the graph works on what is in memory
// then.
func TestPlansMayBeCaptured(t *testing.T) {
	for _, seed := range []int{0, 1, 5} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			b := newBench(t, "seed", seed)
			c := shape(BFloat16, 2, 8, 5, 5, 8, 3, 3, 1, 1)
			r := rand.New(rand.NewPCG(13, 14))
			d := newPass(b, r, Forward, c)
			for _, p := range plans(b, func() ([]*Plan, error) { return b.h.Forward(c) }) {
				workspace := b.room(p.Workspace())
				next := newPass(b, r, Forward, c)
				var exec drv.GraphExec
				b.do(func() error {
					run := func() error { return p.Run(b.s, workspace, d.p[0], d.p[1], d.p[2]) }
					if err := run(); err != nil {
						return err
					}
					if err := b.ctx.BeginCapture(b.s); err != nil {
						return err
					}
					if err := run(); err != nil {
						return err
					}
					g, err := b.ctx.EndCapture(b.s)
					if err != nil {
						return err
					}
					if exec, err = b.ctx.Instantiate(g); err != nil {
						return err
					}
					bytes, _, _ := c.sizes()
					if err := b.ctx.CopyOnDevice(d.p[0], next.p[0], bytes, b.s); err != nil {
						return err
					}
					return errors.Join(b.ctx.GraphLaunch(exec, b.s), b.ctx.DestroyGraph(g))
				})
				near(t, "captured "+p.Engine(), b.get(BFloat16, d.p[2], counts(c)[2]), plain(Forward, c, next.numbers[0], d.numbers[1], nil), ulp(BFloat16))
				b.do(func() error { return b.ctx.DestroyGraphExec(exec) })
			}
			b.do(func() error { return b.ctx.Synchronize(b.s) })
		})
	}
}

// The descriptors of pointers are kept for the next run, and their number stays bounded.
func TestVariantPacksAreKept(t *testing.T) {
	b := newBench(t)
	c := shape(BFloat16, 1, 8, 4, 4, 8, 1, 1, 0, 1)
	p := plans(b, func() ([]*Plan, error) { return b.h.Forward(c) })[0]
	d := newPass(b, rand.New(rand.NewPCG(1, 1)), Forward, c)
	_, _, bytes := c.sizes()
	var workspace, other drv.Ptr
	y := b.room(bytes * 40)
	b.do(func() (err error) {
		if workspace, err = b.ctx.Malloc(p.Workspace()); err == nil {
			other, err = b.ctx.Malloc(p.Workspace())
		}
		return err
	})
	b.do(func() error { return p.Run(b.s, other, d.p[0], d.p[1], y) })

	// A pack with it is of no use any more.
	b.do(func() error { return b.ctx.Free(other) })
	b.do(func() error { return p.Run(b.s, workspace, d.p[0], d.p[1], y) })
	first := p.packs[1].d
	for i := range 40 {
		b.do(func() error { return p.Run(b.s, workspace, d.p[0], d.p[1], y+drv.Ptr(int64(i)*bytes)) })
		b.do(func() error { return p.Run(b.s, workspace, d.p[0], d.p[1], y) })
	}
	if b.h.packs != maxPacks || len(p.packs) != maxPacks {
		t.Errorf("variant packs: the handle has %d and the plan %d, want %d", b.h.packs, len(p.packs), maxPacks)
	}
	if !slices.ContainsFunc(p.packs, func(k pack) bool { return k.d == first }) {
		t.Error("the pack that is used all the time was given up for others")
	}
	b.do(func() error { return b.ctx.Free(workspace) })
}
