package cuda

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// A Work is one kernel, or one call of a library, that a step gives the device, and what it has to
// do at least: bytes are those of all arguments read once and of all results written once.
type Work struct {
	// Op is the plan's; −1: it is behind the ops, where gradients and parameters change their form.
	Op int

	Name     string
	Launches int

	// Read and Written are bytes.
	Read, Written int64

	// Flops are those of products. A product and a sum are two.
	Flops int64
}

// Bytes is what is read and written.
func (w Work) Bytes() int64 { return w.Read + w.Written }

// Rates say how fast a device is thought to be.
type Rates struct {
	Bytes  float64       // a second
	Flops  float64       // a second
	Launch time.Duration // between two kernels of a graph
}

// Time is how long a work takes at these rates: whichever is longer of its bytes and its products,
// and what lies between kernels.
func (w Work) Time(r Rates) time.Duration {
	seconds := max(float64(w.Bytes())/r.Bytes, float64(w.Flops)/r.Flops)
	return time.Duration(seconds*1e9) + time.Duration(w.Launches)*r.Launch
}

// Account lists what a step with gradients gives the device besides copies from and to the host, in
// order. The GPU must be DryRun.
func (e *Executor) Account() ([]Work, error) {
	p := e.gpu.dryRun
	if p == nil {
		return nil, fmt.Errorf("cuda: account on %s: the GPU is not a DryRun", e.gpu.Name())
	}
	if e.schedules.full == nil {
		return nil, fmt.Errorf("cuda: account on %s: the program makes no gradients", e.gpu.Name())
	}
	var all []Work
	take := func(op int, work []launch) error {
		p.works = nil
		err := launchAll(work, e.gpu.compute)
		for i := range p.works {
			p.works[i].Op = op
		}
		all = append(all, p.works...)
		return err
	}
	for i, o := range e.ops {
		if err := take(i, o.work); err != nil {
			return nil, err
		}
	}
	for _, g := range e.schedules.full.segments {
		if err := take(-1, g.work[g.ends:]); err != nil {
			return nil, err
		}
		if g.packs != nil && e.schedules.full.update == nil {
			p.works = nil
			if err := e.gpu.kernels.Pack(e.gpu.up, g.packs); err != nil {
				return nil, err
			}
			for _, w := range p.works {
				w.Op = -1
				all = append(all, w)
			}
		}
	}
	if e.schedules.full.update != nil {
		if err := take(-1, e.schedules.full.update.work); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Total is the sum of all works, without a name.
func Total(works []Work) Work {
	var t Work
	for _, w := range works {
		t.Launches, t.Read, t.Written, t.Flops = t.Launches+w.Launches, t.Read+w.Read, t.Written+w.Written, t.Flops+w.Flops
	}
	return t
}

// WriteAccount writes a table of the works of a step of so many images, those of one name in one
// line, with the time that each of the rates predicts for an image.
func WriteAccount(out io.Writer, works []Work, images int, rates ...Rates) {
	var names []string
	lines := make(map[string][]Work)
	for _, w := range works {
		if lines[w.Name] == nil {
			names = append(names, w.Name)
		}
		lines[w.Name] = append(lines[w.Name], w)
	}
	time := func(works []Work, r Rates) float64 {
		ns := 0.0
		for _, w := range works {
			ns += float64(w.Time(r))
		}
		return ns / 1e3 / float64(images)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(Total(lines[b]).Bytes(), Total(lines[a]).Bytes()) })
	line := func(name string, works []Work) {
		t := Total(works)
		each := 1e6 * float64(images)
		fmt.Fprintf(out, "%-28s %8d %9.3f %9.3f %9.3f", name, t.Launches, float64(t.Read)/each, float64(t.Written)/each, float64(t.Flops)/each/1e3)
		for _, r := range rates {
			fmt.Fprintf(out, " %8.3f", time(works, r))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%-28s %8s %9s %9s %9s", fmt.Sprintf("%d images", images), "launches", "MB read", "written", "Gflop")
	for range rates {
		fmt.Fprintf(out, " %8s", "µs")
	}
	fmt.Fprintln(out, "   (an image)")
	for _, name := range names {
		line(name, lines[name])
	}
	line("all", works)
}
