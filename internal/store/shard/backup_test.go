package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// fillFrom returns a shard that was given all that s is, some numbers at a time; nil if s was
// changed meanwhile.
func fillFrom(t testing.TB, s *Shard, generation uint64, workers int, part int, meanwhile func()) *Shard {
	t.Helper()
	x, err := s.BeginFill()
	if err != nil {
		t.Fatal(err)
	}
	members := []Member{}
	for r := range workers {
		members = append(members, Member{Node: node(r), Rank: uint32(r)})
	}
	cfg := *s.Config()
	cfg.Host = &Host{Pool: &Pool{}}
	b, err := Restore(cfg, &x, generation, members)
	if err != nil {
		t.Fatal(err)
	}
	meanwhile()
	arrays := x.Arrays()
	if s.table.vocabulary != nil {
		for from := uint64(0); from < x.Rows; from += uint64(part) {
			st, ok := s.ReadFillRows(from, min(uint64(part), x.Rows-from))
			if !ok {
				return nil
			}
			if err := b.WriteFillRows(st.Rows, st.Data); err != nil {
				t.Fatal(err)
			}
			st.Data.Release()
		}
		arrays = 0
	}
	for a := range arrays {
		for from := 0; from < s.cfg.values(); from += part {
			values := make([]float32, min(part, s.cfg.values()-from))
			if !s.ReadFill(a, from, values) {
				return nil
			}
			if err := b.WriteFill(a, from, values); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !s.EndFill() {
		return nil
	}
	return b
}

// hand gives the pending record to the backup, as often as said, without taking it back.
func hand(t testing.TB, r *Record, b *Shard, times int) {
	t.Helper()
	for range times {
		var data *Buffer
		if n := len(r.Bytes()); n > 0 {
			data = b.cfg.Pool.Get(n)
			copy(data.Bytes(n), r.Bytes())
		}
		if err := b.Follow(r, data); err != nil {
			t.Fatal(err)
		}
	}
}

// backupCase is a kind of shard and of contributions to it.
type backupCase struct {
	name string
	cfg  Config
	opt  string
	mode uint8
	code uint8
	// guard, unless nil, has something to do: some contributions are broken.
	guard *Guard
	// step, unless nil, says what the contributions of a round have in common.
	step func(rank int, round uint64) wire.Step
	// alone: one worker, whose rounds are measured against each other.
	alone bool
}

func (c *backupCase) size() (workers int, rounds uint64) {
	if c.alone {
		return 1, 2*differencePeriod + 3
	}
	return 3, 12
}

// measuredStep is that of a round whose norms are measured, and whose learning rate is its own.
func measuredStep(micro uint32) func(rank int, round uint64) wire.Step {
	return func(rank int, round uint64) wire.Step {
		st := wire.Step{Measure: true, Rate: wire.RoundRate{Scaled: round%3 > 0, ByProgress: true, Progress: 1.5 * float64(round)}}
		if st.Rate.Scaled {
			st.Rate.Factor, st.Rate.Gain = 1+float64(round)/8, 1+float64(round)
		}
		if micro > 1 && rank != 1 {
			st.Micro, st.MicroSqr = micro, 1.25*float64(rank+1)
		}
		return st
	}
}

func backupCases() (cases []backupCase) {
	denseCfg := Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 37, Size: 37, Shards: 1}
	average := denseCfg
	average.Rule = wire.RuleAverage
	rows := Config{Name: "e", Form: wire.FormRows, Rule: wire.RuleOptimizer, Length: 40 * 3, Size: 40 * 3, RowLen: 3, Shards: 1}
	open := Config{Name: "v", Form: wire.FormOpen, Rule: wire.RuleOptimizer, RowLen: 3, Shards: 1, Table: &Table{Initializer: Initializer{Name: "normal", Deviation: 1, Seed: 3}}}
	for _, opt := range []string{"", "sgd", "momentum", "adam", "lamb"} {
		cases = append(cases,
			backupCase{"dense/" + opt, denseCfg, opt, wire.ModeSync, wire.CodecFloat32, nil, nil, false},
			backupCase{"rows/" + opt, rows, opt, wire.ModeSync, wire.CodecFloat32, nil, nil, false},
			backupCase{"open/" + opt, open, opt, wire.ModeSync, wire.CodecFloat32, nil, nil, false})
	}
	watching := &Guard{Factor: 3, Window: 9, Warmup: 3}
	clipping := &Guard{Factor: 3, Window: 9, Warmup: 3, Clip: true}
	cases = append(cases,
		backupCase{"guarded dense", denseCfg, "adam", wire.ModeSync, wire.CodecFloat32, watching, nil, false},
		backupCase{"guarded dense, clipped", denseCfg, "momentum", wire.ModeSync, wire.CodecFloat32, clipping, nil, false},
		backupCase{"guarded dense, no optimizer", denseCfg, "", wire.ModeSync, wire.CodecFloat32, watching, nil, false},
		backupCase{"guarded rows", rows, "sgd", wire.ModeSync, wire.CodecFloat32, clipping, nil, false},
		backupCase{"guarded open", open, "adam", wire.ModeSync, wire.CodecFloat32, watching, nil, false},
		backupCase{"guarded average", average, "sgd", wire.ModeSync, wire.CodecFloat32, watching, nil, false})
	return append(cases,
		backupCase{"average", average, "sgd", wire.ModeSync, wire.CodecFloat32, nil, nil, false},
		backupCase{"2bit", denseCfg, "momentum", wire.ModeSync, wire.Codec2Bit, nil, nil, false},
		backupCase{"float16", denseCfg, "adam", wire.ModeSync, wire.CodecFloat16, nil, nil, false},
		backupCase{"async", denseCfg, "momentum", wire.ModeAsync, wire.CodecFloat32, nil, nil, false},
		backupCase{"async average", average, "", wire.ModeAsync, wire.CodecFloat32, nil, nil, false},
		backupCase{"async open", open, "adam", wire.ModeAsync, wire.CodecFloat32, nil, nil, false},
		backupCase{"measured", denseCfg, "sgd", wire.ModeSync, wire.CodecFloat32, nil, measuredStep(1), false},
		backupCase{"measured, momentum, micro-batches", denseCfg, "momentum", wire.ModeSync, wire.CodecFloat32, nil, measuredStep(4), false},
		backupCase{"measured, adam, float16", denseCfg, "adam", wire.ModeSync, wire.CodecFloat16, nil, measuredStep(4), false},
		backupCase{"measured, no optimizer", denseCfg, "", wire.ModeSync, wire.CodecFloat32, nil, measuredStep(1), false},
		backupCase{"measured, guarded", denseCfg, "lamb", wire.ModeSync, wire.CodecFloat32, clipping, measuredStep(1), false},
		backupCase{"measured alone", denseCfg, "momentum", wire.ModeSync, wire.CodecFloat32, nil, measuredStep(1), true},
		backupCase{"measured alone, adam, micro-batches", denseCfg, "adam", wire.ModeSync, wire.CodecBFloat16, nil, measuredStep(4), true},
		backupCase{"measured alone, no optimizer", denseCfg, "", wire.ModeSync, wire.CodecFloat32, nil, measuredStep(1), true})
}

func (c *backupCase) shard(t testing.TB, workers int) *Shard {
	var value []float32
	if c.cfg.Form == wire.FormDense {
		value = make([]float32, c.cfg.Length)
		for i := range value {
			value[i] = float32(i)
		}
	}
	s, err := New(c.cfg, value)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetMode(c.mode); err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, workers)
	if c.guard != nil {
		SetGuard([]*Shard{s}, *c.guard)
	}
	switch c.opt {
	case "":
	case "momentum":
		setOptimizer(t, s, optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9, Reduction: optim.Mean, Schedule: fading})
	default:
		setOptimizer(t, s, optim.Config{Name: c.opt, LearningRate: 0.1, Reduction: optim.Mean, Schedule: fading})
	}
	return s
}

var fading = optim.Schedule{Kind: "exponential", Every: 20}

// push makes rank's contribution to a round, always the same one.
func (c *backupCase) push(s *Shard, generation uint64, rank int, round uint64) Contribution {
	rng := rand.New(rand.NewPCG(uint64(rank), round))
	x := contribution(s, rank, round)
	x.Generation, x.Weight = generation, float32(1+rank)
	if c.step != nil {
		x.Step = c.step(rank, round)
	}
	if !s.cfg.HasRows() {
		least, _, _ := PayloadSize(c.code, s.cfg.values())
		x.Data, x.Codec, x.Threshold = s.cfg.Pool.Get(4*s.cfg.values()), c.code, 0.5
		if c.code != wire.Codec2Bit {
			x.Threshold = 0
		}
		for i := range x.Data.Bytes(least) {
			x.Data.Bytes(least)[i] = byte(rng.Uint32())
		}
		if c.code == wire.CodecFloat16 || c.code == wire.CodecBFloat16 { // finite
			for i := range s.cfg.values() {
				x.Data.uint16s(s.cfg.values())[i] &= 0xbfff
			}
			return x
		}
		if c.code == wire.CodecFloat32 {
			for i := range s.cfg.values() {
				x.Data.Float32s(s.cfg.values())[i] = rng.Float32() - 0.5
			}
			c.spoil(x.Data.Float32s(s.cfg.values()), round)
		}
		return x
	}
	var ids []int64
	for i := range int64(40) {
		if rng.IntN(4) == 0 {
			ids = append(ids, i)
		}
	}
	x.Rows = len(ids)
	if len(ids) == 0 {
		return x
	}
	x.Data = s.cfg.Pool.Get(RowsPayloadSize(len(ids), 3))
	copy(x.Data.Int64s(len(ids)), ids)
	for i := range 3 * len(ids) {
		x.Data.Float32s(2*len(ids) + 3*len(ids))[2*len(ids)+i] = rng.Float32() - 0.5
	}
	c.spoil(x.Data.Float32s(2*len(ids) + 3*len(ids))[2*len(ids):], round)
	return x
}

// spoil breaks some contributions, and in one round all of them.
func (c *backupCase) spoil(values []float32, round uint64) {
	if c.guard == nil {
		return
	}
	switch pick := uint64(math.Float32bits(values[0]))%8 + round/9*8; {
	case pick == 0, round == 5:
		values[0] = float32(math.NaN())
	case pick == 1, pick == 2:
		values[0] = 1000
	}
}

// numbers returns all numbers of a shard, rows of an open vocabulary in the order of their IDs.
func numbers(s *Shard) (all []float32) {
	if o := s.table.vocabulary; o != nil {
		for id := range int64(40) {
			if row := o.find(id); row >= 0 {
				for k := range 1 + len(s.updater.slots()) {
					all = append(all, float32(id))
					all = append(all, o.Row(row, k-1)...)
				}
			}
		}
		return all
	}
	all = append(all, s.readers.current.Float32s()...)
	for _, slot := range s.updater.slots() {
		all = append(all, slot.Values...)
	}
	return all
}

// Whatever the kind of the shard, and whenever its primary is lost in a round, the backup that
// takes its place ends with the bits of a shard that never was, and counts each contribution once:
// workers send again their last two pushes.
func TestPromotedBackupEndsWithTheSameBits(t *testing.T) {
	for _, c := range backupCases() {
		t.Run(c.name, func(t *testing.T) {
			workers, rounds := c.size()
			quiet := c.shard(t, workers)
			norms, weights, measured := []wire.Norms{{}}, []float64{0}, 0 // by rounds closed
			for round := range rounds {
				for rank := range workers {
					mustPush(t, quiet, c.push(quiet, 1, rank, round), Held)
				}
				weights = append(weights, quiet.readers.current.weight)
				if norms = append(norms, quiet.sum.norms.ofNewest()); quiet.sum.norms.ofNewest().Count > 0 {
					measured++
				}
			}
			if c.step != nil && measured < 2 {
				t.Fatalf("%d of %d rounds were measured: %+v", measured, rounds, norms)
			}
			for seed := range seeds(12, 100) {
				rng := rand.New(rand.NewPCG(seed, 7))
				s, generation := c.shard(t, workers), uint64(1)
				var b *Shard
				next := make([]uint64, workers)
				losses := 0
				deliver := func() {
					if r := s.Lend(); r != nil {
						hand(t, r, b, 1+rng.IntN(2))
						s.Commit(r, true)
					}
				}
				for step := 0; ; step++ {
					if step > 10_000 {
						t.Fatalf("seed %d: no end: pushes %v, rounds %d", seed, next, s.rounds.number)
					}
					if b == nil && rng.IntN(5) == 0 {
						b = fillFrom(t, s, generation, workers, 1+rng.IntN(50), func() {
							if rank := rng.IntN(workers); next[rank] < rounds && c.mode == wire.ModeSync { // a contribution comes
								x := c.push(s, generation, rank, next[rank])
								if got, err := s.Push(x); err != nil {
									t.Fatal(err)
								} else if got == Held {
									next[rank]++
								} else {
									x.Data.Release()
								}
							}
						})
					}
					if b != nil && rng.IntN(3) == 0 {
						if _, w, err := s.Pull(Want{Round: s.rounds.number}); err != nil {
							t.Fatal(err)
						} else if on, pending := s.BackupStatus(); !on || pending && w == nil {
							t.Fatalf("seed %d: backup %v, round pending %v, and the value of round %d was shown", seed, on, pending, s.rounds.number)
						} else if w != nil {
							w.Cancel()
						}
						deliver()
					}
					if b != nil && rng.IntN(12) == 0 { // the primary is lost, before or after the backup has its round
						if r := s.Lend(); r != nil && rng.IntN(2) == 0 {
							hand(t, r, b, 1)
						}
						generation++
						losses++
						setWorkers(t, b, generation, workers)
						s, b = b, nil
						for rank := range workers {
							for back := min(next[rank], 2); back > 0; back-- {
								if c.mode == wire.ModeAsync && back == 2 {
									continue // it was acknowledged
								}
								x := c.push(s, generation, rank, next[rank]-back)
								if got, err := s.Push(x); err != nil || got == Ahead {
									t.Fatalf("seed %d: rank %d sends push %d again: got %v, %v with %d rounds", seed, rank, next[rank]-back, got, err, s.rounds.number)
								}
							}
						}
					}
					rank := rng.IntN(workers)
					if c.mode == wire.ModeAsync { // in the order of the quiet run, for the sake of the bits
						rank = slices.Index(next, slices.Min(next))
						if _, pending := s.BackupStatus(); pending {
							deliver()
						}
					}
					if next[rank] < rounds {
						x := c.push(s, generation, rank, next[rank])
						got, err := s.Push(x)
						if err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
						if got == Ahead {
							x.Data.Release()
						} else {
							next[rank]++
						}
					}
					if c.mode == wire.ModeSync && (s.sum.norms.ofNewest() != norms[s.rounds.number] || s.readers.current.weight != weights[s.rounds.number]) {
						t.Fatalf("seed %d, %d losses: norms and weight after %d rounds\n got %+v %v\nwant %+v %v", seed, losses, s.rounds.number, s.sum.norms.ofNewest(), s.readers.current.weight, norms[s.rounds.number], weights[s.rounds.number])
					}
					if slices.Min(next) == rounds {
						if _, pending := s.BackupStatus(); !pending && s.rounds.number == quiet.rounds.number {
							break
						}
						if b != nil {
							deliver()
						}
					}
				}
				for _, x := range []*Shard{s, b} {
					if x == nil {
						continue
					}
					if got, want := numbers(x), numbers(quiet); !slices.Equal(got, want) {
						t.Fatalf("seed %d, %d losses: after %d rounds\n got %v\nwant %v", seed, losses, x.rounds.number, got, want)
					}
					for rank := range workers {
						if m := x.members.of(node(rank)); m.lastSeq != rounds {
							t.Errorf("seed %d: contributions of rank %d: got last number %d, want %d", seed, rank, m.lastSeq, rounds)
						}
					}
				}
			}
		})
	}
}

// The sum that is kept for the next round's norms reaches a backup with the state, and with each
// round.
func TestAKeptSumReachesTheBackup(t *testing.T) {
	for _, rule := range []string{"", "sgd", "momentum"} {
		c := backupCase{cfg: Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 37, Size: 37, Shards: 1}, opt: rule, mode: wire.ModeSync, step: measuredStep(1)}
		var want wire.Norms
		for _, when := range []string{"never", "before the round", "after the round"} {
			s := c.shard(t, 1)
			var b *Shard
			if when == "before the round" {
				b = fillFrom(t, s, 1, 1, 10, func() {})
			}
			mustPush(t, s, c.push(s, 1, 0, 0), Held)
			switch when {
			case "before the round":
				r := s.Lend()
				hand(t, r, b, 1)
				s.Commit(r, true)
				s = b
			case "after the round":
				s = fillFrom(t, s, 1, 1, 10, func() {})
			}
			setWorkers(t, s, 2, 1)
			mustPush(t, s, c.push(s, 2, 0, 1), Held)
			if when == "never" {
				want = s.sum.norms.ofNewest()
			}
			if s.sum.norms.ofNewest() != want || !want.Biased {
				t.Errorf("%q, backup filled %s: got %+v, want %+v", rule, when, s.sum.norms.ofNewest(), want)
			}
		}
	}
}

// Nobody sees a round that the backup has not, and what was closed is answered when there is no
// backup any more.
func TestRoundIsAnsweredOnceTheBackupHasIt(t *testing.T) {
	for _, end := range []string{"acknowledged", "detached", "failed, then acknowledged"} {
		s := dense(t, 1, 1, 2)
		called := 0
		s.SetClosed(func() { called++ })
		b := fillFrom(t, s, 1, 1, 10, func() {})
		mustPush(t, s, contribution(s, 0, 0, 5, 6), Held)
		_, w, err := s.Pull(Want{Node: node(0), Round: 1})
		if err != nil || w == nil || called != 1 {
			t.Fatalf("%s: pull of a round that the backup has not: got wait %v, error %v, %d calls; want a wait and 1", end, w, err, called)
		}
		if _, err := s.ReadState(); !errors.Is(err, ErrAgain) {
			t.Errorf("%s: read state: got %v, want %v", end, err, ErrAgain)
		}
		mustPush(t, s, contribution(s, 0, 1, 7, 8), Held)  // counts in the round that may not close yet
		mustPush(t, s, contribution(s, 0, 2, 9, 9), Ahead) // a third one that a worker would have to keep
		r := s.Lend()
		if s.Lend() != nil {
			t.Errorf("%s: the record is lent twice", end)
		}
		hand(t, r, b, 2)
		if end == "detached" {
			s.Detach()
		}
		if end == "failed, then acknowledged" {
			s.Commit(r, false)
			select {
			case <-w.Done():
				t.Fatalf("%s: the round was answered", end)
			default:
			}
			r = s.Lend()
		}
		s.Commit(r, true)
		<-w.Done()
		v, err := w.Result()
		if err != nil || v.Round() != 1 || !slices.Equal(v.Float32s(), []float32{5, 6}) {
			t.Fatalf("%s: got %v of round %d, error %v; want [5 6] of round 1", end, v.Float32s(), v.Round(), err)
		}
		v.Release()
		if s.Rounds() != 2 {
			t.Errorf("%s: got %d rounds, want 2: the next one closes then", end, s.Rounds())
		}
	}
}

// A backup with a gap says so, and is filled anew.
func TestBackupWithAGapIsFilledAnew(t *testing.T) {
	s := dense(t, 1, 1, 2)
	b := fillFrom(t, s, 1, 1, 10, func() {})
	b.rounds.number = 7
	mustPush(t, s, contribution(s, 0, 0, 5, 6), Held)
	b.rounds.number = 0
	old := b
	r := s.Lend()
	r.Round = 3
	if err := old.Follow(r, nil); codeOf(err) != wire.CodeGap {
		t.Errorf("round 3 after 0: got %v, want code %v", err, wire.CodeGap)
	}
	r.Round = 0
	s.Commit(r, false)
	b = fillFrom(t, s, 1, 1, 10, func() {
		if _, w, _ := s.Pull(Want{Round: 1}); w == nil {
			t.Error("the round was answered before the backup was filled")
		} else {
			w.Cancel()
		}
	})
	if v, err := await(context.Background(), s, Want{Round: 1}); err != nil || !slices.Equal(v.Float32s(), b.readers.current.Float32s()) {
		t.Errorf("got %v, want %v", v.Float32s(), b.readers.current.Float32s())
	}
}

// A state that is written makes the backup's obsolete.
func TestWrittenStateSpoilsTheBackup(t *testing.T) {
	s := dense(t, 1, 1, 2)
	fillFrom(t, s, 1, 1, 10, func() {})
	if err := s.WriteState(4, nil, []float32{3, 4}); err != nil {
		t.Fatal(err)
	}
	mustPush(t, s, contribution(s, 0, 4, 5, 6), Held)
	if on, _ := s.BackupStatus(); on || !s.replica.in(replicaStale) || s.Rounds() != 4 {
		t.Errorf("got backup %v, spoiled %v, %d rounds; want false, true, and none closed after 4", on, s.replica.in(replicaStale), s.Rounds())
	}
	if b := fillFrom(t, s, 1, 1, 10, func() { s.WriteState(5, nil, []float32{7, 8}) }); b != nil {
		t.Error("a state was written meanwhile, and the fill went through")
	}
	b := fillFrom(t, s, 1, 1, 10, func() {})
	if got := fmt.Sprint(b.readers.current.Float32s(), b.rounds.number); got != "[7 8] 5" {
		t.Errorf("backup: got %s, want [7 8] 5", got)
	}
}
