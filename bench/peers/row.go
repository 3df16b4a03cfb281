package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/bench/internal/processes"
)

// A row is one work for both programs. processes is 1, or 2 for a scaling row: then each program is
// measured with two processes of one thread against one.
type row struct {
	model          string
	batch, threads int
	dtype          string
	processes      int

	// peer is whom ours is measured against: llmcPeer, readPeer, or "": PyTorch.
	peer string
}

const (
	llmcPeer = "llm.c"
	readPeer = "read"
)

func (r row) String() string {
	if r.processes > 1 {
		return fmt.Sprintf("model=%s/batch=%d/processes=%d/dtype=%s", r.model, r.batch, r.processes, r.dtype)
	}
	name := fmt.Sprintf("model=%s/batch=%d/threads=%d/dtype=%s", r.model, r.batch, r.threads, r.dtype)
	if r.peer != "" {
		name += "/peer=" + r.peer
	}
	return name
}

// peerName is the peer's name in results.
func (r row) peerName() string {
	if r.peer == "" {
		return "pytorch"
	}
	return r.peer
}

// rows are all that --rows and --dtypes choose from.
func rows() (all []row) {
	// The slowest comes last: it has the time that the others leave.
	for _, model := range []string{"resnet18-imagenet", "mlp", "lenet", "resnet18-cifar"} {
		for _, batch := range []int{64, 128} {
			for _, threads := range []int{2, 1} {
				for _, dtype := range []string{"float32", "bf16"} {
					all = append(all, row{model: model, batch: batch, threads: threads, dtype: dtype, processes: 1})
				}
			}
		}
	}
	for _, dtype := range []string{"float32", "bf16"} {
		all = append(all, row{model: "mobilenetv2", batch: 64, threads: 2, dtype: dtype, processes: 1})
	}
	for _, s := range []row{{model: "resnet18-imagenet", batch: 64}, {model: "resnet18-imagenet", batch: 128}, {model: "resnet18-cifar", batch: 64}} {
		s.threads, s.dtype, s.processes = 1, "float32", 2
		all = append(all, s)
	}
	return append(all, newerRows()...)
}

// newerRows are attention, language models and small networks for images, with two threads. They are
// not among those that are measured unless --rows asks for them.
func newerRows() (all []row) {
	for _, r := range []row{
		{model: "attention", batch: 4}, {model: "attention-unfused", batch: 4}, {model: "vit-ti4", batch: 64}, {model: "lstm", batch: 32}, {model: "gpt-10m", batch: 16}, {model: "gpt2-124m", batch: 4},
	} {
		r.threads, r.processes = 2, 1
		for _, r.dtype = range []string{"float32", "bf16"} {
			all = append(all, r)
		}
	}
	return append(all,
		row{model: "gpt2-124m", batch: 4, threads: 2, dtype: "float32", processes: 1, peer: llmcPeer},
		row{model: "gpt2-124m-token", batch: 1, threads: 2, dtype: "float32", processes: 1, peer: readPeer},
		row{model: "gpt-10m", batch: 16, threads: 1, dtype: "float32", processes: 2},
	)
}

// A rate is what one spell gave, in examples a second and a second of CPU time, and the share of
// the machine's cores that other processes took meanwhile.
type rate struct{ wall, cpu, others float64 }

// A result is a row's rates: of ours and of the peer's, spell by spell.
type result struct {
	row
	ours, peer []rate

	// eager and compiled are the peer's two; compiled is empty where it was not measured, and
	// uncompiled says why.
	eager, compiled []rate
	uncompiled      string

	// oursAlone and peerAlone are the rates of one process, in rows of scaling.
	oursAlone, peerAlone []rate

	plan, oursPeak, peerPeak float64

	// late says why there is no ratio; "": there is one.
	late string
}

// measure makes spells until enough, and at least one pair; none begins behind the time until.
func (b *bench) measure(ctx context.Context, r row, until time.Time) (result, error) {
	if r.processes > 1 {
		return b.measureScaling(ctx, r, until)
	}
	res := result{row: r}
	for i := 0; i < b.processes && (i == 0 || time.Now().Before(until)); i++ {
		err := b.turnsOf(ctx, &res, until)
		whole := len(res.eager)
		if res.compiled != nil {
			whole = min(whole, len(res.compiled))
			res.compiled = res.compiled[:whole]
		}
		res.ours, res.eager = res.ours[:whole], res.eager[:whole]
		if errors.Is(err, errLate) && whole > 0 {
			// The spells that were made count.
			break
		}
		if err != nil {
			return res, err
		}
	}
	all := len(res.ours)
	mode := res.choosePeer()
	if b.memory {
		var theirs peerError
		if err := b.memoryOf(ctx, &res, mode); errors.Is(err, errLate) || errors.As(err, &theirs) {
			// Memory was not measured.
			res.plan, res.oursPeak, res.peerPeak = 0, 0, 0
		} else if err != nil {
			return res, err
		}
	}
	b.print("paragon", res.row, res.ours, res.oursPeak)
	if b.compile && r.peer == "" {
		b.print("pytorch-eager", res.row, res.eager, 0)
		if len(res.compiled) > 0 {
			b.print("pytorch-compile", res.row, res.compiled, 0)
		} else {
			fmt.Fprintf(b.out, "# BenchmarkStep/%v/program=pytorch-compile: %s\n", r, res.uncompiled)
		}
	}
	b.print(r.peerName(), res.row, res.peer, res.peerPeak)
	if res.late = machine.Disturbed(res.others()); res.late != "" {
		fmt.Fprintf(b.out, "# BenchmarkRatio/%v: %s\n", r, res.late)
		return res, nil
	}
	lo, mid, hi := pairs(res.ours, res.peer)
	memory := ""
	if res.peerPeak > 0 {
		memory = fmt.Sprintf("%.2f memory-x\t%.1f plan-MB\t", res.oursPeak/res.peerPeak, res.plan/1e6)
	}
	fmt.Fprintf(b.out, "BenchmarkRatio/%v \t%d\t%.2f x\t%.2f x-min\t%.2f x-median\t%.2f x-max\t%.2f cpu-x\t%s%d spells-in-all\t%.2f others\t%s ours-images/s\t%s peer-images/s\n", r, len(res.ours),
		ratio(wall, res.ours, res.peer), lo, mid, hi, ratio(cpu, res.ours, res.peer), memory, all, res.others(), figure(median(of(wall, res.ours))), figure(median(of(wall, res.peer))))
	return res, nil
}

// A side is a process that takes turns, and its rates.
type side struct {
	p     *process
	rates *[]rate
}

// choosePeer keeps the quiet turns, if there are enough, and makes the better of the peer's two the
// peer. It returns what more that one is started with.
func (r *result) choosePeer() (mode []string) {
	if len(r.compiled) == 0 {
		quiet := quietTurns(r.ours, r.eager)
		r.ours, r.eager = quiet[0], quiet[1]
		r.peer = r.eager
		return nil
	}
	quiet := quietTurns(r.ours, r.eager, r.compiled)
	r.ours, r.eager, r.compiled = quiet[0], quiet[1], quiet[2]
	if r.peer = r.eager; ratio(wall, r.compiled, r.eager) > 1 {
		r.peer, mode = r.compiled, []string{"compile"}
	}
	return mode
}

// turnsOf starts a process of each program and lets them take turns.
func (b *bench) turnsOf(ctx context.Context, res *result, until time.Time) error {
	ours, err := b.start(ctx, b.tuned(res.row), b.ourServe(res.row)...)
	if err != nil {
		return err
	}
	defer ours.stop()
	peer, err := b.start(ctx, b.tuned(res.row), b.peerServe(res.row)...)
	if err != nil {
		return err
	}
	defer peer.stop()
	sides := []side{{ours, &res.ours}, {peer, &res.eager}}
	if b.compile && res.row.peer == "" && res.uncompiled == "" {
		compiled, err := b.start(ctx, b.tuned(res.row), append(b.peerServe(res.row), "compile")...)
		if err != nil && ctx.Err() != nil {
			return err
		} else if err != nil {
			// Without compilation eager PyTorch is the peer.
			res.uncompiled, res.compiled = processes.Reason(err), nil
		} else {
			defer compiled.stop()
			sides = append(sides, side{compiled, &res.compiled})
		}
	}
	quiet := 0
	for turn := 0; quiet < b.turns && turn < patience*b.turns && (turn == 0 || time.Now().Before(until)); turn++ {
		undisturbed := true
		for _, side := range sides {
			before := b.busy()
			n, err := side.p.run(b.seconds)
			if err != nil {
				return err
			}
			got := rateOf(n, res.batch)
			got.others = othersShare(b.busy()-before-n[2], n[1])
			*side.rates = append(*side.rates, got)
			undisturbed = undisturbed && got.others <= quietShare
		}
		if undisturbed {
			quiet++
		}
	}
	return nil
}

// othersShare is the share of the cores that other processes took, which worked so many seconds of
// CPU time within seconds.
func othersShare(worked, seconds float64) float64 {
	return max(0, worked/seconds/float64(runtime.NumCPU()))
}

// memoryOf asks processes of their own, with plain settings, for their peaks. Of PyTorch's two
// layouts the smaller counts.
func (b *bench) memoryOf(ctx context.Context, res *result, mode []string) error {
	peak := func(env []string, args []string) (plan, grown float64, err error) {
		p, err := b.start(ctx, env, args...)
		if err != nil {
			return 0, 0, err
		}
		defer p.stop()
		if _, err := p.run(0.1); err != nil {
			return 0, 0, err
		}
		n, err := p.ask("memory")
		return n[0], n[1], err
	}
	var err error
	if res.plan, res.oursPeak, err = peak(b.plain(res.row), b.ourServe(res.row)); err != nil {
		return err
	}
	layouts := []string{"plain", "last"}
	if res.row.peer != "" {
		layouts = layouts[:1]
	}
	for _, layout := range layouts {
		_, grown, err := peak(append(b.plain(res.row), "TORCH_LAYOUT="+layout), append(b.peerServe(res.row), mode...))
		if err != nil {
			return err
		}
		if res.peerPeak == 0 || grown < res.peerPeak {
			res.peerPeak = grown
		}
	}
	return nil
}

func (b *bench) ourServe(r row) []string {
	return []string{b.ours, "serve", "--model", r.model, "--batch", strconv.Itoa(r.batch), "--threads", strconv.Itoa(r.threads), "--dtype", r.dtype}
}

func (b *bench) peerServe(r row) []string {
	switch r.peer {
	case llmcPeer:
		return []string{b.llmc, strconv.Itoa(r.batch)}
	case readPeer:
		r.model = "gpt2-124m-read"
		return b.ourServe(r)
	}
	return []string{b.python, b.script, "serve", r.model, strconv.Itoa(r.batch), strconv.Itoa(r.threads), r.dtype}
}

// tuned are the peer's best settings: one pool of threads, and an allocator that keeps what is
// freed. Ours ignores them.
func (b *bench) tuned(r row) []string {
	return append(b.plain(r), "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=17179869184", "MALLOC_TOP_PAD_=268435456", "MALLOC_ARENA_MAX=1")
}

// plain is the number of threads. A pool of BLAS's own would fight OpenMP's: with it PyTorch's MLP
// is several times slower.
func (b *bench) plain(r row) []string {
	blas := 1
	if b.oneBlasPool {
		blas = r.threads
	}
	return []string{"OMP_NUM_THREADS=" + strconv.Itoa(r.threads), "OPENBLAS_NUM_THREADS=" + strconv.Itoa(blas)}
}

// rateOf is the rate of a spell: steps, seconds, seconds of CPU time.
func rateOf(n [3]float64, batch int) rate {
	return rate{wall: n[0] * float64(batch) / n[1], cpu: n[0] * float64(batch) / n[2]}
}

func (b *bench) print(program string, r row, rates []rate, memory float64) {
	all := of(wall, rates)
	fmt.Fprintf(b.out, "BenchmarkStep/%v/program=%s \t%d\t%.0f ns/op\t%.2f images/s\t%.2f images/s-min\t%.2f images/s-max\t%.2f images/cpu-s", r, program, len(rates),
		1e9*float64(r.batch*r.processes)/median(all), median(all), slices.Min(all), slices.Max(all), median(of(cpu, rates)))
	if memory > 0 {
		fmt.Fprintf(b.out, "\t%.1f MB", memory/1e6)
	}
	fmt.Fprintln(b.out)
}
