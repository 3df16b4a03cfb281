package main

import (
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// An opCheck compares one operation with a plain computation in float64 on the same numbers.
type opCheck struct {
	name  string
	types []kernels.Type
	run   func(o *opRun) error
}

// An opRun is one operation in one type.
type opRun struct {
	*device
	t       kernels.Type
	small   bool
	seed    uint64
	worst   float64
	what    string // of worst
	until   time.Time
	engines engineCount // of cuDNN
}

var (
	floats = []kernels.Type{kernels.Float32, kernels.BFloat16, kernels.Float16}
	single = []kernels.Type{kernels.Float32}
)

// bounds are what rounding of a result to a type explains, as a share of its length: numbers are off by up to half a unit in the last of
// 8 or 11 bits, evenly; float32 sums in another order.
var bounds = map[kernels.Type]float64{kernels.Float32: 3e-6, kernels.BFloat16: 3e-3, kernels.Float16: 4e-4}

// random draws numbers; each call others.
func (o *opRun) random(n int) []float64 {
	o.seed++
	return random(o.seed, n)
}

// with draws numbers and puts them.
func (o *opRun) with(n int) ([]float64, ptr) {
	v := o.random(n)
	return v, o.put(o.t, v)
}

// worse says whether d takes the place of the worst so far. What is no number is worst of all, and stays.
func worse(d, worst float64) bool { return !math.IsNaN(worst) && !(d <= worst) }

// near counts how far a result is off, in units of what the type explains.
func (o *opRun) near(what string, t kernels.Type, p ptr, want []float64) {
	d := distance(o.get(t, p, len(want)), want) / bounds[t]
	if worse(d, o.worst) {
		o.worst, o.what = d, what
	}
}

// exact counts a result that must be the very same.
func (o *opRun) exact(what string, t kernels.Type, p ptr, want []float64) {
	for i, g := range o.get(t, p, len(want)) {
		if g != want[i] {
			o.worst, o.what = math.Inf(1), fmt.Sprintf("%s[%d] is %v, want %v", what, i, g, want[i])
			return
		}
	}
}

func mapped(v []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = f(x)
	}
	return out
}

func relu(x float64) float64 { return max(x, 0) }

func checkOps(c *checker) error {
	return c.use(func(d *device) error {
		if err := d.withKernels(); err != nil {
			return err
		}
		if err := d.withCuDNN(); err != nil {
			c.failed("cuDNN", err)
		}
		if err := d.withCuBLASLt(); err != nil {
			c.failed("cuBLASLt", err)
		}
		var checks []opCheck
		for _, list := range [][]opCheck{elementChecks, imageChecks, normChecks, lossChecks, tableChecks, libraryChecks} {
			checks = append(checks, list...)
		}
		for _, check := range checks {
			for _, t := range check.types {
				name := fmt.Sprintf("%s %v", check.name, t)
				if c.late(name) {
					continue
				}
				o := &opRun{device: d, t: t, small: c.small, until: c.after(0.15)}
				err := check.run(o)
				if e := d.release(); err == nil {
					err = e
				}
				if err != nil {
					c.failed(name, err)
					if lost(err) {
						return err
					}
					continue
				}
				r := row{Name: name, Status: ok, Value: o.worst * bounds[t], Unit: "relative error", Bound: bounds[t], Detail: o.what}
				if o.engines != (engineCount{}) {
					r.Detail += "; " + o.engines.String()
				}
				if !(o.worst <= 1) {
					r.Status = fail
				}
				c.row(r)
			}
		}
		return nil
	})
}

var elementChecks = []opCheck{
	{"fill, cast, scale", floats, func(o *opRun) error {
		n := o.size(100003)
		y, z := o.empty(o.t, n), o.empty(kernels.Float32, n)
		x, xp := o.with(n)
		if err := o.set.Fill(o.s, o.t, int64(n), y, 1.5); err != nil {
			return err
		}
		o.exact("fill", o.t, y, mapped(x, func(float64) float64 { return 1.5 }))
		if err := o.set.Cast(o.s, kernels.Float32, o.t, int64(n), z, xp); err != nil {
			return err
		}
		o.exact("cast to float32", kernels.Float32, z, x)
		if err := o.set.Cast(o.s, o.t, kernels.Float32, int64(n), y, z); err != nil {
			return err
		}
		o.exact("cast from float32", o.t, y, x)
		factor := o.put(kernels.Float32, []float64{0.5})
		if err := o.set.Scale(o.s, o.t, int64(n), y, xp, 3, factor); err != nil {
			return err
		}
		o.near("scale", o.t, y, mapped(x, func(v float64) float64 { return 1.5 * v }))
		return nil
	}},
	{"unscale, and what is not finite", floats, func(o *opRun) error {
		n := o.size(50001)
		for _, bad := range []bool{false, true} {
			x := o.random(n)
			if bad {
				x[n/2] = math.Inf(1)
			}
			xp, y, found := o.put(o.t, x), o.empty(kernels.Float32, n), o.put(kernels.Int32, []float64{0})
			if err := o.set.Unscale(o.s, o.t, int64(n), y, xp, 0.25, 0, found); err != nil {
				return err
			}
			want := []float64{0}
			if bad {
				want[0] = 1
			} else {
				o.near("y", kernels.Float32, y, mapped(x, func(v float64) float64 { return v / 4 }))
			}
			o.exact("found", kernels.Int32, found, want)
		}
		return nil
	}},
	{"add, ReLU", floats, func(o *opRun) error {
		n := o.size(100003)
		a, ap := o.with(n)
		b, bp := o.with(n)
		y := o.empty(o.t, n)
		for _, withReLU := range []bool{false, true} {
			if err := o.set.Add(o.s, o.t, int64(n), y, ap, bp, withReLU); err != nil {
				return err
			}
			want := make([]float64, n)
			for i := range want {
				if want[i] = a[i] + b[i]; withReLU {
					want[i] = relu(want[i])
				}
			}
			o.near("add", o.t, y, want)
		}
		y = o.empty(o.t, n)
		if err := o.set.ReLU(o.s, o.t, int64(n), y, ap); err != nil {
			return err
		}
		want := mapped(a, relu)
		o.exact("ReLU", o.t, y, want)
		dx := o.empty(o.t, n)
		if err := o.set.ReLUGrad(o.s, o.t, int64(n), dx, y, bp); err != nil {
			return err
		}
		for i := range want {
			if want[i] > 0 {
				want[i] = b[i]
			}
		}
		o.exact("gradient of ReLU", o.t, dx, want)
		return nil
	}},
	{"bias", floats, func(o *opRun) error {
		for _, c := range []int{10, 64} {
			n := o.size(20000) / c
			x, xp := o.with(n * c)
			b := o.random(c)
			bp, y := o.put(kernels.Float32, b), o.empty(o.t, n*c)
			if err := o.set.BiasAdd(o.s, o.t, n, c, 1, y, xp, bp, true); err != nil {
				return err
			}
			want, sums := make([]float64, n*c), make([]float64, c)
			for i := range want {
				want[i] = relu(x[i] + b[i%c])
				sums[i%c] += x[i]
			}
			o.near("add", o.t, y, want)
			db, workspace := o.empty(kernels.Float32, c), o.room(o.set.SumsWorkspace(c))
			if err := o.set.BiasGrad(o.s, o.t, n, c, 1, db, xp, workspace); err != nil {
				return err
			}
			o.near("gradient", kernels.Float32, db, sums)
		}
		return nil
	}},
}

// size is n, or less where speed is not that of a GPU.
func (o *opRun) size(n int) int {
	if o.small {
		return min(n, 1000+n%8)
	}
	return n
}
