package worker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// What a step uses is asked for all parts before each step: it takes no division and no memory.
func TestUsedOfAllPartsTakesNoMemory(t *testing.T) {
	p, err := worker.NewPartition(1000, 7, 5, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Divided(2, 5, []sampler.Cut{{Parts: 3, Used: []int{70, 70, 70}}}); err != nil {
		t.Fatal(err)
	}
	used := 0
	all := func() {
		used = 0
		for part := range 6 { // one is not there
			used += p.Used(part, 1000)
		}
	}
	all()
	if n := testing.AllocsPerRun(10, all); n > 0 || used != 790 {
		t.Errorf("%v allocations and %d examples, want 0 and 790", n, used)
	}
}

func TestPartitionOfSegments(t *testing.T) {
	type resize struct{ step, perStep int }
	for _, c := range []struct {
		name            string
		length, workers int
		resizes         []resize
		steps           int
		used            []int // by a worker that does not run out, after 0, 1, ... steps
	}{
		{"none", 10, 1, nil, 3, []int{0, 4, 8, 10, 10}},
		{"grows", 20, 1, []resize{{2, 8}}, 4, []int{0, 4, 8, 16, 20}},
		{"shrinks", 20, 1, []resize{{1, 5}, {2, 2}}, 8, []int{0, 4, 9, 11, 13, 15, 17, 19, 20}},
		{"the same", 10, 1, []resize{{1, 4}}, 3, []int{0, 4, 8, 10}},
		{"replaced", 10, 1, []resize{{0, 2}, {0, 5}, {1, 3}, {1, 5}}, 2, []int{0, 5, 10}},
		{"at the end", 8, 1, []resize{{2, 16}}, 2, []int{0, 4, 8, 8}},
		{"huge", 10, 1, []resize{{1, 1 << 62}}, 2, []int{0, 4, 10}},
		{"two workers", 21, 2, []resize{{1, 6}}, 3, []int{0, 4, 10, 11}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := worker.NewPartition(c.length, 4, c.workers, 0)
			for _, r := range c.resizes {
				if err == nil {
					err = p.Resize(r.step, r.perStep)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Steps() != c.steps {
				t.Errorf("got %d steps, want %d", p.Steps(), c.steps)
			}
			for steps, want := range c.used {
				if got := p.Used(0, steps); got != want {
					t.Errorf("after %d steps %d examples are used, want %d", steps, got, want)
				}
			}
		})
	}
}

func TestPartitionNamesWhatItRefuses(t *testing.T) {
	p, err := worker.NewPartition(40, 4, 1, 0)
	if err == nil {
		err = p.Resize(3, 8)
	}
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"step 2: want a step from 3, where the last segment begins, to 7": p.Resize(2, 8),
		"step 8: want a step from 3":                                      p.Resize(8, 8),
		"step 4: got 0 examples a step":                                   p.Resize(4, 0),
		"got 0 examples a run":                                            p.SetRun(0),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
	if got := p.Segments(); !slices.Equal(got, []worker.Segment{{0, 4}, {3, 8}}) {
		t.Errorf("the errors have left segments %v", got)
	}
}

// Whatever the steps' sizes, runs and cuts of an epoch, the steps of all workers use each example
// once, and in the order of the share.
func TestSegmentsUseEachExampleOnce(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		length := 1 + random.IntN(300)
		var cuts []sampler.Cut
		times := make([]int, length)
		perStep := 1 + random.IntN(20)
		for division := 0; ; division++ {
			workers := 1 + random.IntN(4)
			parts := make([]*worker.Partition, workers)
			for rank := range parts {
				var err error
				if parts[rank], err = worker.NewPartition(length, perStep, workers, rank, sampler.Seed(seed)); err != nil {
					t.Fatal(err)
				}
				if err := parts[rank].Divided(rank, workers, cuts); err != nil {
					t.Fatal(err)
				}
				if err := parts[rank].SetRun(1 + random.IntN(12)); err != nil {
					t.Fatal(err)
				}
			}
			step, last := 0, division == 3
			for !(parts[0].Steps() == step) && (last || random.IntN(8) > 0) { // until a change of the membership, or the end
				for range 1 + random.IntN(3) {
					if step == parts[0].Steps() {
						break
					}
					for rank, p := range parts {
						want := p.Examples(0, rank, p.Used(rank, step+1))[p.Used(rank, step):]
						var got []int
						for batch := range p.Batches(0, step) {
							if len(batch) > p.PerRun() {
								t.Fatalf("seed %d: a run of %d examples, want at most %d", seed, len(batch), p.PerRun())
							}
							got = append(got, batch...)
							if len(got) >= len(want) {
								break
							}
						}
						if !slices.Equal(got, want) {
							t.Fatalf("seed %d: step %d of rank %d has %v, want %v", seed, step, rank, got, want)
						}
						for _, i := range got {
							times[i]++
						}
					}
					step++
				}
				perStep = 1 + random.IntN(40)
				for rank, p := range parts {
					if err := p.Resize(step, perStep); err != nil {
						t.Fatalf("seed %d: rank %d: %v", seed, rank, err)
					}
					if p.Steps() != parts[0].Steps() {
						t.Fatalf("seed %d: rank %d has %d steps, rank 0 %d", seed, rank, p.Steps(), parts[0].Steps())
					}
				}
			}
			if step == parts[0].Steps() {
				break
			}
			cut := sampler.Cut{Parts: workers}
			for rank, p := range parts {
				cut.Used = append(cut.Used, p.Used(rank, step))
			}
			cuts = append(cuts, cut)
		}
		for i, n := range times {
			if n != 1 {
				t.Fatalf("seed %d: example %d of %d was used %d times, want once; cuts %v", seed, i, length, n, fmt.Sprint(cuts))
			}
		}
	}
}
