//go:build gpu

package cuda_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// flopPerImage is what a training step of ResNet18 for images of 32×32 takes: three times the
// forward pass's 0.5554 G products and sums.
const flopPerImage = 3 * 2 * 0.5554e9

// measuring are options with which engines are measured, for each program as long as that share of
// the time that is left; the choices go to the user's folder, where jobs find them.
func measuring(t *testing.T, share float64) cuda.Options {
	if testing.Short() {
		return guesses
	}
	return cuda.Options{Repeat: 5, Budget: max(time.Millisecond, min(15*time.Second, time.Until(gputest.After(t, share))))}
}

// A stepCase is one measurement.
type stepCase struct {
	typ   cuda.Compute
	batch int
	eager bool // kernels launched one by one

	// norms has cuDNN's normalisations.
	norms bool
}

// stepCases are in the order in which they matter.
var stepCases = []stepCase{
	{typ: cuda.BFloat16, batch: 512}, {typ: cuda.BFloat16, batch: 512, eager: true}, {typ: cuda.BFloat16, batch: 1024}, {typ: cuda.BFloat16, batch: 256},
	{typ: cuda.BFloat16, batch: 128}, {typ: cuda.BFloat16, batch: 768}, {typ: cuda.Float16, batch: 512}, {typ: cuda.TF32, batch: 512},
	{typ: cuda.Float32, batch: 512}, {typ: cuda.BFloat16, batch: 512, norms: true}, {typ: cuda.BFloat16, batch: 128, eager: true}, {typ: cuda.BFloat16, batch: 64},
}

// String names a measurement; gpucheck looks for it.
func (s stepCase) String() string {
	how := "graphs"
	if s.eager {
		how = "eager"
	}
	if s.norms {
		how += " and norms of cuDNN"
	}
	return fmt.Sprintf("%v, batch %d, %s", s.typ, s.batch, how)
}

// How fast training is with the update on the device: only images, as bytes, and the loss are
// copied.
func TestGPUSteps(t *testing.T) {
	gputest.Begin(t)
	machine := fake.New(t)
	remembered := "no choices of engines were remembered"
	path := cudnn.DefaultCachePath()
	if _, err := os.Stat(path); err == nil {
		remembered = "there were choices of engines in " + path
	}
	options := measuring(t, 0.2)
	gpus := map[bool]*cuda.GPU{}
	for i, s := range stepCases {
		if testing.Short() && (s.batch != 512 || s.typ == cuda.TF32 || s.typ == cuda.Float32) {
			continue
		}
		if gpus[s.norms] == nil {
			options.Norms = s.norms
			begun := time.Now()
			if gpus[s.norms] = openWith(t, machine, gputest.Number(), options); i == 0 {
				gputest.Measured(t, "open the GPU", time.Since(begun).Seconds(), "s", "the driver, its libraries, the kernels")
			}
		}
		gputest.Check(t, s.String(), func(t *testing.T) {
			ready := s.speed(t, gpus[s.norms])
			switch i { // of the same questions
			case 0:
				gputest.Measured(t, "from model to first step, first time", ready.Seconds(), "s", "%s, batch %d; %s", s.typ, s.batch, remembered)
			case 1:
				gputest.Measured(t, "from model to first step, again", ready.Seconds(), "s", "%s, batch %d, with the choices of engines from before", s.typ, s.batch)
			}
		})
	}
}

// trainer is a program in training for its speed.
func trainer(t *testing.T, batch int, cfg cuda.Config) *program {
	size, width := 32, 64
	if testing.Short() {
		batch, size, width = 4, 8, 8
	}
	m := resnet18(batch, size, width)
	p := compile(t, m, cfg)
	p.fill(t, nil, m.classes, 9)
	px, err := p.Pixels(0, cuda.PixelsConfig{C: 3, H: size, W: size, Mean: []float32{0.5, 0.5, 0.5}, Std: []float32{0.25, 0.25, 0.25}})
	gputest.Must(t, err)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range px.Images {
		px.Images[i] = uint8(rng.IntN(256))
	}
	return p
}

// nesterov is SGD with Nesterov momentum on the device. Memory is taken in the first step, which is
// not captured.
func nesterov(t *testing.T, gpu *cuda.GPU) cuda.Update {
	numbers := updateNumbers(t, gpu, kernels.Update{Scale: 1, Clip: 3e38, Shrink: 1, Rate: 0.01, Decay: 5e-4, Momentum: 0.9})
	ctx, momenta := gpu.Context(), map[drv.Ptr]drv.Ptr{}
	t.Cleanup(func() {
		err := ctx.Do(func() (err error) {
			for _, m := range momenta {
				err = errors.Join(err, ctx.Free(m))
			}
			return err
		})
		if err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return func(s drv.Stream, pieces []cuda.Piece, found drv.Ptr) error {
		for _, p := range pieces {
			if momenta[p.Params] == 0 {
				m, err := ctx.Malloc(4 * p.N)
				if err != nil {
					return err
				}
				momenta[p.Params] = m
				if err := ctx.Memset8(m, 0, 4*p.N, s); err != nil {
					return err
				}
			}
			if err := gpu.Kernels().Nesterov(s, p.N, p.Params, p.Grads, momenta[p.Params], numbers, found); err != nil {
				return err
			}
		}
		return nil
	}
}

// speed measures one case, and how long it took to the end of the first step.
func (s stepCase) speed(t *testing.T, gpu *cuda.GPU) (prepared time.Duration) {
	begun := time.Now()
	p := trainer(t, s.batch, cuda.Config{GPU: gpu, Type: s.typ, Eager: s.eager, Update: nesterov(t, gpu)})
	loss := p.step(t)
	prepared = time.Since(begun)
	var launches int
	var bytes int64

	// A graph's launches are none of ours.
	if s.eager {
		gpu.Kernels().Trace(func(l kernels.Launch) { launches, bytes = launches+1, bytes+l.Read+l.Written })
		p.step(t)
		gpu.Kernels().Trace(nil)
	}
	ms := p.pace(t, func() error { return p.Run(t.Context(), false, plan.Hooks{}) })
	rate := float64(s.batch) / ms * 1e3
	detail := fmt.Sprintf("%.3f ms, %.0f TFLOP/s; loss %.3f, then %.3f; memory %+v; ready after %.1f s", ms, rate*flopPerImage/1e12, loss, p.number(t), p.plan.Memory, prepared.Seconds())
	if s.eager {
		detail += fmt.Sprintf("; our kernels: %d launches, %.1f MB an image", launches, float64(bytes)/1e6/float64(s.batch))
	}
	gputest.Measured(t, s.String(), rate, "images/s", "%s", detail)
	return prepared
}

// pace is the median time of a step in milliseconds, over spells of ten.
func (p *program) pace(t *testing.T, step func() error) float64 {
	least, spell, length := 5, 10, 1500*time.Millisecond
	if testing.Short() {
		least, spell, length = 1, 1, 0
	}
	run := func(n int) {
		for range n {
			gputest.Must(t, step())
		}
	}
	run(3)
	var times []float64
	for begun := time.Now(); len(times) < least || time.Since(begun) < length; {
		began := time.Now()
		run(spell)
		times = append(times, time.Since(began).Seconds()*1e3/float64(spell))
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// How fast copies between pinned memory and the device are, as large as all gradients of ResNet18,
// how soon a thread knows that the GPU is done, and what of the copies is hidden behind a step.
func TestGPUTransfers(t *testing.T) {
	gputest.Begin(t)
	machine := fake.New(t)
	gpu := openWith(t, machine, gputest.Number(), measuring(t, 0.5))
	gputest.Check(t, "copies", func(t *testing.T) { copies(t, gpu) })
	gputest.Check(t, "steps whose numbers travel", func(t *testing.T) {
		const batch = 512
		var ms [2]float64
		for i := range ms {
			cfg := cuda.Config{GPU: gpu, Type: cuda.BFloat16}
			if i == 0 {
				cfg.Update = nesterov(t, gpu)
			}
			p := trainer(t, batch, cfg)
			ms[i] = p.pace(t, func() error { return p.Run(t.Context(), false, plan.Hooks{}) })
		}
		gputest.Measured(t, "a step that keeps its numbers", ms[0], "ms", "bfloat16, batch %d", batch)
		gputest.Measured(t, "a step whose numbers travel both ways", ms[1], "ms", "%.0f%% of the speed; 45 MB each way beside the computing", 100*ms[0]/ms[1])
	})
}

func copies(t *testing.T, gpu *cuda.GPU) {
	d, memory := gpu.Context(), memoryOf(t, gpu)
	n, repeat := int64(11173962*4), 10
	if testing.Short() {
		n, repeat = 1<<16, 1
	}
	up, err1 := memory.Room(n, 0)
	down, err2 := memory.Room(n, 0)
	gputest.Must(t, errors.Join(err1, err2))
	var s, other drv.Stream
	var from, to []byte
	var event drv.Event
	gputest.Must(t, d.Do(func() error {
		var errs [5]error
		s, errs[0] = d.NewStream(0)
		other, errs[1] = d.NewStream(0)
		from, errs[2] = d.HostAlloc(n)
		to, errs[3] = d.HostAlloc(n)
		event, errs[4] = d.NewEvent(false)
		return errors.Join(errs[:]...)
	}))
	there := func() error { return d.CopyToDevice(up, unsafe.Pointer(&from[0]), n, s) }
	back := func(s drv.Stream) error { return d.CopyToHost(unsafe.Pointer(&to[0]), down, n, s) }
	for _, m := range []struct {
		name  string
		bytes int64
		f     func() error
	}{
		{"host to device", n, there},
		{"device to host", n, func() error { return back(s) }},
		{"both ways at once", 2 * n, func() error { return errors.Join(back(other), there(), d.Record(event, other), d.WaitEvent(s, event)) }},
	} {
		took := gputest.Spell(t, d, s, repeat, m.f)
		gputest.Measured(t, m.name, float64(m.bytes)/took.Seconds()/1e9, "GB/s", "%.1f MB each way in %v", float64(n)/1e6, took)
	}
	// When a thread sleeps until it is woken, as in a step, and when it asks. The difference is
	// lost at the end of each step.
	median := func(wait func() error) time.Duration {
		var took []time.Duration
		for range 21 {
			begun := time.Now()
			gputest.Must(t, d.Do(func() error { return errors.Join(d.Memset8(up, 0, n, s), d.Record(event, s), wait()) }))
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	woken := median(func() error { return d.SynchronizeEvent(event) })
	asked := woken
	if !testing.Short() { // stand-ins do nothing until a wait
		asked = median(func() error {
			for {
				if done, err := d.Query(event); done || err != nil {
					return err
				}
			}
		})
	}
	gputest.Measured(t, "to be woken when the GPU is done", float64(woken-asked)/1e3, "us", "set of %.1f MB: %v when sleeping, %v when asking again and again", float64(n)/1e6, woken, asked)
	gputest.Must(t, d.Do(func() error {
		return errors.Join(d.HostFree(from), d.HostFree(to), d.DestroyEvent(event), d.DestroyStream(other), d.DestroyStream(s))
	}))
}

// groupSpeeds measures steps of groups with gradients and parameters copied to the host and back.
func groupSpeeds(t *testing.T, machine *fake.Machine) {
	devices, err := machine.Driver().Devices()
	gputest.Must(t, err)
	gputest.Measured(t, "GPUs as one", 0, "", "%d GPUs", len(devices))
	var one float64
	measure := func(name string, n int, link cuda.Link) {
		gputest.Check(t, name, func(t *testing.T) {
			const batch = 512
			var programs []*program
			var executors []*cuda.Executor
			for i := range n {
				p := trainer(t, batch, cuda.Config{GPU: openWith(t, machine, i, measuring(t, 0.3)), Type: cuda.BFloat16})
				programs, executors = append(programs, p), append(executors, p.Executor)
			}
			g := join(t, executors, link)
			ms := programs[0].pace(t, func() error { return g.Run(t.Context(), plan.Hooks{}) })
			rate := float64(batch*n) / ms * 1e3
			if n == 1 {
				one = rate
			}
			against := ""
			if n > 1 && one > 0 {
				against = fmt.Sprintf(", %.2f × one GPU", rate/one)
			}
			gputest.Measured(t, name, rate, "images/s", "%.3f ms a step of %d images on each%s; %v", ms, batch, against, g)
		})
	}
	measure("1 GPU, speed", 1, cuda.AutoLink)
	for n := 2; n <= len(devices); n *= 2 {
		measure(fmt.Sprintf("%d GPUs, speed", n), n, cuda.AutoLink)
	}
	measure("2 GPUs by peer copies, speed", 2, cuda.PeerCopies)
	measure("2 GPUs by the host's memory, speed", 2, cuda.ThroughHost)
}
