package hostsum

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A rig is the Server of one of a host's three workers, nodes 10, 11 and 12 of ranks 0, 2 and 5,
// and a shard's server that answers 100 + each sum.
type rig struct {
	t    *testing.T
	s    *Server
	pool shard.Pool
	key  uint64 // that node 11 leads

	mu   sync.Mutex // guards the rest
	sent []wire.Push
	sums [][]byte
	gate chan struct{} // if not nil Forward waits for it
	err  error         // that Forward returns
}

const rigValues = 5

func newRig(t *testing.T, edit func(*Config)) *rig {
	r := &rig{t: t}
	for Leader(r.key, 0, 3) != 1 {
		r.key++
	}
	cfg := Config{
		Length: func(key uint64, shard uint32) (uint64, bool) { return rigValues, shard == 0 && key != 999 },
		Pool:   &r.pool, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Forward: func(ctx context.Context, f *Forwarded) error {
			r.mu.Lock()
			r.sent, r.sums = append(r.sent, f.Push), append(r.sums, slices.Clone(f.Payload))
			gate, err := r.gate, r.err
			r.mu.Unlock()
			f.Explain(func() string { return "server 0 at s0: waits for worker 7" })
			if gate != nil {
				select {
				case <-gate:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err != nil {
				return err
			}
			f.Value = wire.Value{Round: f.Push.Round + 1, N: rigValues}
			f.Got = f.Into[:copy(f.Into, f.Payload)]
			return nil
		},
	}
	if edit != nil {
		edit(&cfg)
	}
	r.s = New(cfg)
	r.members(1, 10, 11, 12)
	return r
}

func (r *rig) members(generation uint64, nodes ...uint64) {
	var group []*wire.Member
	for _, n := range nodes {
		group = append(group, &wire.Member{Node: n, Rank: rankOf(n), Host: "h", PID: uint32(n)})
	}
	r.s.SetMembership(generation, 11, group)
}

func rankOf(node uint64) int32 { return map[uint64]int32{10: 0, 11: 2, 12: 5, 13: 6}[node] }

func (r *rig) push(node, round uint64) *wire.Push {
	return &wire.Push{Origin: wire.Origin{Generation: 1, Node: node, Rank: uint32(rankOf(node)), Key: r.key, Seq: round + 1}, Round: round, Weight: float32(node),
		N: rigValues, Answer: true, WaitMillis: 60_000}
}

func floats(x ...float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// of is a gradient of a node.
func of(node uint64) []byte { return floats(float32(node), 1, 1e8, -1e8, float32(node)) }

func codeOf(err error) wire.Code {
	var r *transport.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return 0
}

// all pushes for nodes, one after the other, and returns what each got.
func (r *rig) all(pushes ...*wire.Push) (values [][]byte, errs []error) {
	values, errs = make([][]byte, len(pushes)), make([]error, len(pushes))
	var wg sync.WaitGroup
	for i, p := range pushes {
		wg.Go(func() {
			var v wire.Value
			values[i], errs[i] = r.s.Call(context.Background(), p, &v, make([]byte, 4*rigValues), of(p.Node))
			if errs[i] == nil && v.Round != p.Round+1 {
				r.t.Errorf("node %d: value of round %d, want %d", p.Node, v.Round, p.Round+1)
			}
		})
		synctest.Wait()
	}
	wg.Wait()
	return values, errs
}

// end closes the Server and checks that all memory came back.
func (r *rig) end() {
	r.t.Helper()
	r.s.Close()
	if got := r.pool.Taken(); got != 0 {
		r.t.Errorf("%d bytes are still in use", got)
	}
}

// One sum leaves, in rank order whatever the order of arrival, and names its contributors; all get
// the value.
func TestOneSumLeavesInRankOrder(t *testing.T) {
	for _, order := range [][]uint64{{10, 11, 12}, {12, 11, 10}, {11, 12, 10}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			var pushes []*wire.Push
			for _, n := range order {
				pushes = append(pushes, r.push(n, 7))
			}
			sum := make([]float32, rigValues)
			for _, n := range []uint64{10, 11, 12} {
				for i, x := range []float32{float32(n), 1, 1e8, -1e8, float32(n)} {
					sum[i] += x
				}
			}
			values, errs := r.all(pushes...)
			for i := range values {
				if errs[i] != nil || !slices.Equal(values[i], floats(sum...)) {
					t.Errorf("node %d: got %v, %v", order[i], values[i], errs[i])
				}
			}
			p := r.sent[0]
			if len(r.sent) != 1 || p.Node != 11 || p.Rank != 2 || p.Seq != 0 || p.Weight != 0 || p.Round != 7 || !p.Answer || len(p.Contributors) != 3 {
				t.Fatalf("sent %+v", r.sent)
			}
			for i, c := range p.Contributors {
				if n := uint64(10 + i); c.Node != n || c.Seq != 8 || c.Weight != float32(n) {
					t.Errorf("contributor %d: %+v", i, c)
				}
			}
		})
	}
}

// What is not to be added up here is refused, each with the code that says what the worker is to
// do.
func TestWhatIsNotAddedUpIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(p *wire.Push)
		want wire.Code
	}{
		{"another leader's", func(p *wire.Push) {
			for Leader(p.Key, 0, 3) == 1 {
				p.Key++
			}
		}, wire.CodePushAlone},
		{"older generation", func(p *wire.Push) { p.Generation = 0 }, wire.CodeStaleGeneration},
		{"newer generation", func(p *wire.Push) { p.Generation = 2 }, wire.CodeStaleGeneration},
		{"another host's worker", func(p *wire.Push) { p.Node = 13 }, wire.CodePushAlone},
		{"another rank", func(p *wire.Push) { p.Rank = 1 }, wire.CodePushAlone},
		{"a key that is not known yet", func(p *wire.Push) { p.Key = 999 }, wire.CodeBusy},
		{"another length", func(p *wire.Push) { p.N = 6 }, wire.CodeSize},
		{"another payload", func(p *wire.Push) { p.Codec = wire.CodecFloat16 }, wire.CodeSize},
		{"2bit", func(p *wire.Push) { p.Codec = wire.Codec2Bit }, wire.CodePushAlone},
		{"an answer in 2bit", func(p *wire.Push) { p.AnswerCodec = wire.Codec2Bit }, wire.CodeUnsupported},
		{"without an answer", func(p *wire.Push) { p.Answer = false }, wire.CodePushAlone},
		{"judged", func(p *wire.Push) { p.Judged = true }, wire.CodePushAlone},
		{"a sum", func(p *wire.Push) { p.Contributors = make([]wire.Contributor, 2) }, wire.CodePushAlone},
		{"no number", func(p *wire.Push) { p.Seq = 0 }, wire.CodePushAlone},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			p, began := r.push(10, 0), time.Now()
			c.edit(p)
			_, errs := r.all(p)
			if codeOf(errs[0]) != c.want || time.Since(began) != 0 {
				t.Errorf("%s: got %v after %v, want code %v at once", c.name, errs[0], time.Since(began), c.want)
			}
			// Only an answer about the membership names a generation.
			generation := map[wire.Code]uint64{wire.CodeStaleGeneration: 1}[c.want]
			if refusal := (*transport.Refusal)(nil); errors.As(errs[0], &refusal) && refusal.Generation != generation {
				t.Errorf("%s: the answer names generation %d, want %d", c.name, refusal.Generation, generation)
			}
		})
	}
}

// A round waits for a late worker for a while; then all push for themselves, the late one when it
// comes. A worker that does not come at all is not waited for again until it is heard.
func TestALateWorkerDissolvesTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		took := func(pushes ...*wire.Push) (time.Duration, []error) {
			began := time.Now()
			_, errs := r.all(pushes...)
			return time.Since(began), errs
		}
		d, errs := took(r.push(10, 0), r.push(11, 0))
		if d != 5*time.Second || codeOf(errs[0]) != wire.CodePushAlone || codeOf(errs[1]) != wire.CodePushAlone || !strings.Contains(errs[0].Error(), "worker 5 on h (node 12, pid 12)") {
			t.Errorf("two of three: got %v after %v", errs, d)
		}
		if d, errs = took(r.push(12, 0)); d != 0 || codeOf(errs[0]) != wire.CodePushAlone {
			t.Errorf("the late one: got %v after %v", errs, d)
		}
		if d, errs = took(r.push(10, 1), r.push(11, 1), r.push(12, 1)); d != 0 || errors.Join(errs...) != nil {
			t.Errorf("the next round: got %v after %v", errs, d)
		}
		for round := uint64(2); round < 6; round++ {
			d, errs = took(r.push(10, round), r.push(11, round))
			want := 5 * time.Second
			if round >= 2+maxAbsent {
				want = 0
			}
			if d != want || codeOf(errs[0]) != wire.CodePushAlone {
				t.Errorf("round %d without node 12: got %v after %v, want %v", round, errs, d, want)
			}
		}
		if d, errs = took(r.push(12, 6), r.push(10, 6), r.push(11, 6)); d != 0 || errors.Join(errs...) != nil {
			t.Errorf("node 12 is back: got %v after %v", errs, d)
		}
		if sent, dissolved := r.s.Counts(); sent != 2 || dissolved != 3 {
			t.Errorf("got %d sums and %d dissolved", sent, dissolved)
		}
	})
}

// A push that is sent again waits for its round and counts once. Once the round has ended it is
// refused: the server knows it.
func TestARepeatedPushCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		values, errs := r.all(r.push(10, 0), r.push(12, 0), r.push(10, 0), r.push(11, 0))
		if errors.Join(errs...) != nil || len(r.sent) != 1 || !slices.Equal(values[0], values[2]) {
			t.Errorf("got %v, %d sums", errs, len(r.sent))
		}
		began := time.Now()
		if _, errs := r.all(r.push(10, 0)); codeOf(errs[0]) != wire.CodePushAlone || time.Since(began) != 0 {
			t.Errorf("after the round: got %v after %v", errs, time.Since(began))
		}
		other := r.push(10, 1)
		other.Seq = 7
		r.s.env.cfg.Wait = time.Second
		if _, errs := r.all(r.push(10, 1), other); codeOf(errs[1]) != wire.CodePushAlone {
			t.Errorf("another push to the round: got %v", errs)
		}
	})
}

// Pushes that cannot be one contribution are not added up.
func TestPushesThatDifferAreNotAddedUp(t *testing.T) {
	for name, edit := range map[string]func(p *wire.Push){
		"rate":    func(p *wire.Push) { p.Step.Rate = wire.RoundRate{Scaled: true, Factor: 2} },
		"measure": func(p *wire.Push) { p.Step.Measure = true },
		"answer":  func(p *wire.Push) { p.AnswerCodec = wire.CodecBFloat16 },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			p := r.push(11, 0)
			edit(p)
			_, errs := r.all(r.push(10, 0), p, r.push(12, 0))
			for i, err := range errs {
				if codeOf(err) != wire.CodePushAlone {
					t.Errorf("%s: push %d: got %v", name, i, err)
				}
			}
			if len(r.s.shards[shardID{r.key, 0}].rounds) != 0 {
				t.Errorf("%s: the round is not over", name)
			}
		})
	}
}

// Another membership ends what is not complete; its workers try again. A sum that was sent is
// answered.
func TestAnotherMembershipEndsWhatIsNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		r.gate = make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, errs := r.all(r.push(10, 0), r.push(11, 0), r.push(12, 0)); errors.Join(errs...) != nil {
				t.Errorf("a sum that was sent: got %v", errs)
			}
		})
		time.Sleep(time.Second)
		wg.Go(func() {
			if _, errs := r.all(r.push(10, 1)); codeOf(errs[0]) != wire.CodeStaleGeneration {
				t.Errorf("a round that is not complete: got %v", errs)
			}
		})
		time.Sleep(time.Second)
		r.members(2, 10, 11)
		time.Sleep(time.Second)
		close(r.gate)
		wg.Wait()
	})
}

// When the server refuses the sum each worker pushes for itself.
func TestARefusedSumIsPushedByEachWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		r.err = transport.Refuse(wire.CodePushAlone, 1, "one of them has counted before")
		_, errs := r.all(r.push(10, 0), r.push(11, 0), r.push(12, 0))
		for i, err := range errs {
			if codeOf(err) != wire.CodePushAlone || !strings.Contains(err.Error(), "one of them has counted before") {
				t.Errorf("push %d: got %v", i, err)
			}
		}
	})
}

// A worker is told whom it waits for, when its time is over: those of its host, or what the server
// says.
func TestAWaitIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		r.gate = make(chan struct{})
		p := r.push(10, 0)
		p.WaitMillis = 2000
		if _, errs := r.all(p); codeOf(errs[0]) != wire.CodeTimeout || !strings.Contains(errs[0].Error(), "worker 2 on h (node 11, pid 11), worker 5 on h") {
			t.Errorf("got %v", errs)
		}
		q, u := r.push(11, 0), r.push(12, 0)
		q.WaitMillis, u.WaitMillis = 2000, 2000
		if _, errs := r.all(q, u); codeOf(errs[1]) != wire.CodeTimeout || !strings.Contains(errs[1].Error(), "waits for worker 7") {
			t.Errorf("got %v", errs)
		}
		close(r.gate)
	})
}

// A worker cannot make a leader hold more than a few payloads.
func TestALeaderHoldsABoundedNumberOfPayloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		var pushes []*wire.Push
		for round := range uint64(20) {
			pushes = append(pushes, r.push(10, round))
		}
		_, errs := r.all(pushes...)
		busy := 0
		for _, err := range errs {
			if codeOf(err) == wire.CodeBusy {
				busy++
			}
		}
		if busy != 20-maxPayloads {
			t.Errorf("%d of 20 pushes were refused as too many, want %d", busy, 20-maxPayloads)
		}
	})
}

// Gradients of 16 bits are added as float32 and the sum is rounded once; one that float16 cannot
// hold is sent as float32.
func TestSumsOfHalves(t *testing.T) {
	for _, x := range []struct {
		half  uint16 // each value
		codec uint8  // of the sum
	}{{0x3c00, wire.CodecFloat16}, {0x7bff, wire.CodecFloat32}} { // 1 and 65504
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			var b []byte
			for range rigValues {
				b = binary.LittleEndian.AppendUint16(b, x.half)
			}
			var wg sync.WaitGroup
			for _, n := range []uint64{10, 11, 12} {
				wg.Go(func() {
					p := r.push(n, 0)
					p.Codec = wire.CodecFloat16
					if _, err := r.s.Call(context.Background(), p, &wire.Value{}, make([]byte, 4*rigValues), b); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			want := floats(3*65504, 3*65504, 3*65504, 3*65504, 3*65504)
			if x.codec == wire.CodecFloat16 {
				want = nil
				for range rigValues {
					want = binary.LittleEndian.AppendUint16(want, 0x4200) // 3
				}
			}
			if len(r.sent) != 1 || r.sent[0].Codec != x.codec || !slices.Equal(r.sums[0], want) {
				t.Errorf("sent codec %d, %x; want %d, %x", r.sent[0].Codec, r.sums[0], x.codec, want)
			}
		})
	}
}

// Keys are spread over a host's workers.
func TestLeadersAreSpread(t *testing.T) {
	for n := 2; n <= 8; n++ {
		count := make([]int, n)
		for key := range uint64(300 * n) {
			count[Leader(3*key, uint32(key%2), n)]++
		}
		if slices.Min(count) < 240 || slices.Max(count) > 360 {
			t.Errorf("%d workers lead %v shards, want about 300 each", n, count)
		}
	}
}

// A call that is given up before its turn leaves a copy: its memory may change, and what it had
// counts.
func TestAGradientIsCopiedWhenItsCallEndsBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		memory := of(12)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := r.s.Call(ctx, r.push(12, 0), &wire.Value{}, make([]byte, 4*rigValues), memory); err == nil {
				t.Error("a call that was cancelled: got no error")
			}
			clear(memory)
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if _, errs := r.all(r.push(10, 0), r.push(11, 0)); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(r.sums[0])); got != 33 {
			t.Errorf("the sum has %v, want 33", got)
		}
	})
}

// goneLoan was taken back.
type goneLoan struct{ loan }

func (goneLoan) Claim() bool { return false }

// lendGone is a node's call of round 0 whose gradient is in its round, and was taken back.
func (r *rig) lendGone(node uint64) *call {
	r.t.Helper()
	c := &call{s: r.s, push: *r.push(node, 0), lent: goneLoan{}}
	err := c.prepare(4 * rigValues)
	if err == nil {
		c.round, err = c.sums.join(&c.push, nil, c.lent, time.Now())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// A gradient that its worker has taken back before its turn has not come; the worker may send it
// again.
func TestAGradientThatWasTakenBackHasNotCome(t *testing.T) {
	for _, settled := range []bool{false, true} { // the call has ended before the others came, or not yet
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			c := r.lendGone(12)
			if settled {
				c.sums.settle(c.round, 12, c.lent)
			}
			_, errs := r.all(r.push(10, 0), r.push(11, 0), r.push(12, 0))
			if errors.Join(errs...) != nil || len(r.sent) != 1 {
				t.Errorf("settled %v: got %v and %d sums", settled, errs, len(r.sent))
			}
			c.finish()
		})
	}
}

// A worker whose connection to the leader broke sends its gradient again. The new call's loan takes
// the place of the old one's: the end of the old call does not make the round wait for a worker
// that is there.
func TestAGradientThatIsSentAgainIsLentAnew(t *testing.T) {
	for _, order := range []string{"the old call ends first", "the gradient is added first"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			first := r.lendGone(12)
			ended := func() {
				first.sums.settle(first.round, 12, first.lent)
				first.finish()
			}
			began := time.Now()
			var again sync.WaitGroup
			again.Go(func() {
				if _, err := r.s.Call(context.Background(), r.push(12, 0), &wire.Value{}, make([]byte, 4*rigValues), of(12)); err != nil {
					t.Errorf("%s: sent again: got %v", order, err)
				}
			})
			synctest.Wait()
			if order == "the old call ends first" {
				ended()
			}
			_, errs := r.all(r.push(10, 0), r.push(11, 0))
			again.Wait()
			if order != "the old call ends first" {
				ended()
			}
			if errors.Join(errs...) != nil || len(r.sent) != 1 || time.Since(began) != 0 {
				t.Errorf("%s: got %v and %d sums after %v", order, errs, len(r.sent), time.Since(began))
			}
		})
	}
}

// FuzzPush: whatever a process of the host asks the leader for, it gets an answer, and what the
// request took is given back.
func FuzzPush(f *testing.F) {
	r := newRig(nil, nil)
	f.Add(byte(wire.KindPush), wire.AppendHead(nil, r.push(10, 0)), 4*rigValues, true)
	f.Add(byte(wire.KindPush), wire.AppendHead(nil, r.push(12, 3)), 4*rigValues, false)
	half := r.push(10, 1)
	half.Codec, half.AnswerCodec = wire.CodecFloat16, wire.CodecBFloat16
	f.Add(byte(wire.KindPush), wire.AppendHead(nil, half), 2*rigValues, true)
	f.Add(byte(wire.KindPushMany), []byte{1, 0, 0, 0}, 8, false)
	f.Fuzz(func(t *testing.T, kind byte, head []byte, payload int, all bool) {
		if uint(payload) > 1<<16 {
			return
		}
		r := newRig(t, func(cfg *Config) { cfg.Wait = time.Millisecond })
		var others sync.WaitGroup
		for _, node := range []uint64{11, 12} {
			if all { // and so the round of an honest first push can close
				others.Go(func() { r.s.Call(t.Context(), r.push(node, 0), new(wire.Value), make([]byte, 4*rigValues), of(node)) })
			}
		}
		for range 2 {
			req := &transport.Request{Kind: wire.Kind(kind), Head: head}
			if payload > 0 {
				b, err := r.s.Buffer(req, payload)
				if err != nil {
					break
				}
				copy(b, of(10))
				req.Payload = b
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			resp, err := r.s.Serve(ctx, req)
			cancel()
			if err == nil {
				resp.Release()
			}
		}
		others.Wait()
		r.end()
	})
}
