package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/cuda/cublaslt"
	"github.com/paragon-train/paragon/internal/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// spell times n runs of f, which enqueues on s, between two events; the best of three.
func (d *device) spell(s drv.Stream, n int, f func() error) (best time.Duration, err error) {
	from, err1 := d.NewEvent(true)
	to, err2 := d.NewEvent(true)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.DestroyEvent(from), d.DestroyEvent(to)) }()
	if err := f(); err != nil { // warm
		return 0, err
	}
	for range 3 {
		if err := d.Record(from, s); err != nil {
			return 0, err
		}
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		if err := errors.Join(d.Record(to, s), d.Synchronize(s)); err != nil {
			return 0, err
		}
		t, err := d.Elapsed(from, to)
		if err != nil {
			return 0, err
		}
		if t /= time.Duration(n); best == 0 || t < best {
			best = t
		}
	}
	return max(best, 1), nil
}

// noise is device memory of small random numbers of a type: what is multiplied decides how much power that takes.
func (d *device) noise(t kernels.Type, n int) drv.Ptr {
	p := d.empty(t, n)
	if d.err != nil {
		return 0
	}
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	size := int(t.Size())
	part := make([]byte, min(n*size, len(d.stage)))
	for i := 0; i+size <= len(part); i += size {
		x := float32(rng.NormFloat64())
		if t == kernels.Float32 {
			*(*float32)(unsafe.Pointer(&part[i])) = x
		} else {
			*(*uint16)(unsafe.Pointer(&part[i])) = narrow(t, x)
		}
	}
	for at := 0; at < n*size && d.err == nil; at += len(part) {
		d.err = d.write(p+drv.Ptr(at), part[:min(len(part), n*size-at)])
	}
	return p
}

func checkCeilings(c *checker) error {
	return c.use(func(d *device) error {
		if err := d.withKernels(); err != nil {
			return err
		}
		n, repeat := int64(1<<30), 20
		if c.small {
			n, repeat = 1<<14, 1
		}
		a, b := d.room(n), d.room(n)
		if d.err != nil {
			return d.err
		}
		bandwidth := func(name string, bytes int64, f func() error) error {
			t, err := d.spell(d.s, repeat, f)
			if err != nil {
				c.failed(name, err)
				if lost(err) {
					return err
				}
				return nil
			}
			c.measured(name, float64(bytes)/t.Seconds()/1e12, "TB/s", "%d MiB in %v", n>>20, t)
			return nil
		}
		err := errors.Join(
			bandwidth("copy on the device, read and written", 2*n, func() error { return d.CopyOnDevice(b, a, n, d.s) }),
			bandwidth("set to a byte", n, func() error { return d.Memset8(a, 0, n, d.s) }),
			bandwidth("kernel add, bfloat16", 3*n, func() error { return d.set.Add(d.s, kernels.BFloat16, n/2, b, a, b, false) }),
			bandwidth("kernel cast, bfloat16 to float32", n/2+n, func() error { return d.set.Cast(d.s, kernels.Float32, kernels.BFloat16, n/4, b, a) }))
		if e := d.release(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		if err := d.withCuBLASLt(); err != nil {
			return err
		}
		for _, t := range []struct {
			name string
			typ  kernels.Type
			tf32 bool
		}{{"bfloat16", kernels.BFloat16, false}, {"float16", kernels.Float16, false}, {"tf32", kernels.Float32, true}, {"float32", kernels.Float32, false}} {
			name := "product 8192³, " + t.name
			if c.late(name) {
				continue
			}
			if err := c.product(d, name, t.typ, t.tf32); err != nil {
				c.failed(name, err)
				if lost(err) {
					return err
				}
			}
		}
		return nil
	})
}

func (c *checker) product(d *device, name string, t kernels.Type, tf32 bool) error {
	size, repeat := 8192, 10
	if c.small {
		size, repeat = 16, 1
	}
	if t == kernels.Float32 && !tf32 {
		size = min(size, 4096)
	}
	plans, err := d.blas.Plans(cublaslt.Matmul{M: size, N: size, K: size, TransB: true, In: blasTypes[t], Out: blasTypes[t], TF32: tf32})
	if err != nil {
		return err
	}
	x, w, y := d.noise(t, size*size), d.noise(t, size*size), d.empty(t, size*size)
	var best time.Duration
	engine := ""
	for _, plan := range plans {
		space := d.room(max(plan.Workspace(), 1))
		if d.err != nil || c.ctx.Err() != nil {
			break
		}
		took, err := d.spell(d.s, repeat, func() error { return plan.Run(d.s, space, x, w, 0, y) })
		if err != nil {
			return err
		}
		if best == 0 || took < best {
			best, engine = took, plan.Engine()
		}
		if err := plan.Close(); err != nil {
			return err
		}
	}
	if err := d.release(); err != nil {
		return err
	}
	c.measured(name, 2*float64(size)*float64(size)*float64(size)/best.Seconds()/1e12, "TFLOP/s", "size %d, %d algorithms, the best in %v: %s", size, len(plans), best, engine)
	return nil
}

// resnetConvs are the convolutions of ResNet18 for images of 32×32, each once, with how often it is there.
func resnetConvs(batch int, t cudnn.DType) (convs []cudnn.Conv, times []int) {
	add := func(n, channels, size, filters, kernel, stride int) {
		convs = append(convs, cudnn.Conv{N: batch, C: channels, H: size, W: size, K: filters, R: kernel, S: kernel, Pad: [2]int{kernel / 2, kernel / 2},
			Stride: [2]int{stride, stride}, In: t, Weight: t, Out: t})
		times = append(times, n)
	}
	add(1, 8, 32, 64, 3, 1) // 3 channels, padded
	add(4, 64, 32, 64, 3, 1)
	for stage := range 3 {
		from, size := 64<<stage, 32>>stage
		add(1, from, size, 2*from, 3, 2)
		add(1, from, size, 2*from, 1, 2)
		add(3, 2*from, size/2, 2*from, 3, 1)
	}
	return convs, times
}

func checkEngines(c *checker) error {
	return c.use(func(d *device) error {
		if err := d.withCuDNN(); err != nil {
			return err
		}
		batch, repeat := 512, 5
		if c.small {
			batch, repeat = 1, 1
		}
		convs, times := resnetConvs(batch, cudnn.BFloat16)
		if c.small {
			convs = convs[5:6]
			convs[0].C, convs[0].K, convs[0].H, convs[0].W = 8, 8, 4, 4
		}
		var total time.Duration
		whole := true
		for i, conv := range convs {
			for _, pass := range []cudnn.Op{cudnn.Forward, cudnn.BackwardData, cudnn.BackwardWeight} {
				if i == 0 && pass == cudnn.BackwardData && !c.small {
					continue // the images' gradient is not needed
				}
				name := fmt.Sprintf("%v %v", pass, conv)
				if c.late(name) {
					whole = false
					continue
				}
				best, err := c.engines(d, name, pass, conv, repeat)
				if err != nil {
					whole = false
					c.failed(name, err)
					if lost(err) {
						return err
					}
				}
				total += best * time.Duration(times[i])
			}
		}
		if whole {
			c.measured("all convolutions of a step", total.Seconds()*1e3, "ms", "batch %d, each by its fastest engine: %.0f images/s", batch, float64(batch)/total.Seconds())
		}
		return nil
	})
}

// engines times all engines for one question, and returns the best time of those whose sums have a fixed order, which is what programs
// take unless they ask for others. What the others would gain is in the row.
func (c *checker) engines(d *device, name string, pass cudnn.Op, conv cudnn.Conv, repeat int) (time.Duration, error) {
	conv.NonDeterministic = true
	candidates, err := d.dnn.Candidates(pass, conv)
	if err != nil {
		return 0, err
	}
	var plans []*cudnn.Plan
	until := c.after(0.1)
	for i, p := range candidates {
		if len(plans) > 0 && time.Now().After(until) {
			if err := closePlans(candidates[i:]); err != nil {
				return 0, err
			}
			break
		}
		if err = p.Build(); err == nil {
			plans = append(plans, p)
		} else if e := p.Close(); e != nil {
			return 0, e
		}
	}
	if len(plans) == 0 {
		return 0, fmt.Errorf("none of %d engines: %w", len(candidates), err)
	}
	p, q := conv.OutSize()
	x, w, y := d.noise(kernels.BFloat16, conv.N*conv.H*conv.W*conv.C), d.noise(kernels.BFloat16, conv.K*conv.R*conv.S*conv.C), d.noise(kernels.BFloat16, conv.N*p*q*conv.K)
	var most int64 = 1
	for _, plan := range plans {
		most = max(most, plan.Workspace())
	}
	space := d.room(most)
	if d.err != nil {
		return 0, errors.Join(d.release(), cudnn.Release(plans, nil))
	}
	loose := make(map[string]bool)
	for _, plan := range plans {
		loose[plan.Engine()] = slices.Contains(plan.Notes(), cudnn.NoteNonDeterministic)
	}
	_, timings, err := cudnn.Tune(d.Context, d.s, plans, func(plan *cudnn.Plan) error { return plan.Run(d.s, space, x, w, y) }, repeat)
	err = errors.Join(err, cudnn.Release(plans, nil))
	if e := d.release(); err == nil {
		err = e
	}
	if err != nil {
		return 0, err
	}
	first := timings[0]
	timings = slices.DeleteFunc(timings, func(t cudnn.Timing) bool { return t.Err != nil })
	if len(timings) == 0 {
		return 0, fmt.Errorf("no engine ran: %w", first.Err)
	}
	slices.SortStableFunc(timings, func(a, b cudnn.Timing) int { return int(a.Time - b.Time) })
	var list []string
	for _, t := range timings {
		mark := ""
		if loose[t.Engine] {
			mark = ", no fixed order of sums"
		}
		list = append(list, fmt.Sprintf("%v %s (%d KiB%s)", t.Time, t.Engine, t.Workspace>>10, mark))
	}
	best := timings[0].Time
	if i := slices.IndexFunc(timings, func(t cudnn.Timing) bool { return !loose[t.Engine] }); i >= 0 {
		best = timings[i].Time
	}
	flop := 2 * float64(conv.N*p*q*conv.K) * float64(conv.R*conv.S*conv.C)
	c.measured(name, float64(best.Microseconds()), "µs", "%.0f TFLOP/s; the library's guess %v; %s", flop/max(best.Seconds(), 1e-9)/1e12, first.Time, strings.Join(list, ", "))
	return best, nil
}

// checkTransfers measures copies between pinned memory and the device, as large as all gradients of ResNet18.
func checkTransfers(c *checker) error {
	err := c.use(func(d *device) error {
		n, repeat := int64(11173962*4), 10
		if c.small {
			n, repeat = 1<<16, 1
		}
		up, down := d.room(n), d.room(n)
		other, err := d.NewStream(0)
		if err = errors.Join(err, d.err); err != nil {
			return err
		}
		from, err1 := d.HostAlloc(n)
		to, err2 := d.HostAlloc(n)
		event, err3 := d.NewEvent(false)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		there := func() error { return d.CopyToDevice(up, unsafe.Pointer(&from[0]), n, d.s) }
		back := func(s drv.Stream) error { return d.CopyToHost(unsafe.Pointer(&to[0]), down, n, s) }
		for _, m := range []struct {
			name  string
			bytes int64
			f     func() error
		}{
			{"host to device", n, there},
			{"device to host", n, func() error { return back(d.s) }},
			{"both ways at once", 2 * n, func() error {
				return errors.Join(back(other), there(), d.Record(event, other), d.WaitEvent(d.s, event))
			}},
		} {
			t, err := d.spell(d.s, repeat, m.f)
			if err != nil {
				return err
			}
			c.measured(m.name, float64(m.bytes)/t.Seconds()/1e9, "GB/s", "%.1f MB each way in %v", float64(n)/1e6, t)
		}
		if err := c.waits(d, up, n); err != nil {
			return err
		}
		return errors.Join(d.release(), d.HostFree(from), d.HostFree(to), d.DestroyEvent(event), d.DestroyStream(other))
	})
	if err != nil {
		return err
	}
	return c.overlap()
}

// waits measures how soon a thread knows that the GPU is done: when it sleeps until it is woken, as in a step, and when it polls.
// The difference is lost at the end of each step.
func (c *checker) waits(d *device, p drv.Ptr, n int64) error {
	event, err := d.NewEvent(false)
	if err != nil {
		return err
	}
	asks := func() error {
		for {
			if done, err := d.Query(event); done || err != nil {
				return err
			}
		}
	}
	sleeps := func() error { return d.SynchronizeEvent(event) }
	median := func(wait func() error) (time.Duration, error) {
		var took []time.Duration
		for range 21 {
			begun := time.Now()
			if err := errors.Join(d.Memset8(p, 0, n, d.s), d.Record(event, d.s), wait()); err != nil {
				return 0, err
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		return took[len(took)/2], nil
	}
	woken, err := median(sleeps)
	if err != nil {
		return err
	}
	asked := woken
	if !c.small { // stand-ins do nothing until a wait
		if asked, err = median(asks); err != nil {
			return err
		}
	}
	c.measured("to be woken when the GPU is done", float64(woken-asked)/1e3, "us", "set of %.1f MB: %v when sleeping, %v when asking again and again", float64(n)/1e6, woken, asked)
	return d.DestroyEvent(event)
}
