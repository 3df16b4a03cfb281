package hostsum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// request is a push as another worker of the host sends it.
func request(p *wire.Push) *transport.Request {
	return &transport.Request{Kind: wire.KindPush, Head: wire.AppendHead(nil, p)}
}

// send puts the payload into the memory that the Server gives for it, and has the request served.
func (r *rig) send(ctx context.Context, req *transport.Request, payload []byte) (transport.Response, error) {
	if len(payload) > 0 {
		b, err := r.s.Buffer(req, len(payload))
		if err != nil {
			return transport.Response{}, err
		}
		if len(b) != len(payload) {
			r.t.Errorf("got memory of %d bytes for a payload of %d", len(b), len(payload))
		}
		req.Payload = b[:copy(b, payload)]
	}
	return r.s.Serve(ctx, req)
}

// call pushes for one node.
func (r *rig) call(p *wire.Push) error {
	_, err := r.s.Call(r.t.Context(), p, new(wire.Value), make([]byte, 4*rigValues), of(p.Node))
	return err
}

// Pushes that come over a connection are added to the leader's own, and each is answered with the
// value.
func TestPushesOfOtherProcessesAreAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		want := floats(33, 3, 3e8, -3e8, 33)
		var wg sync.WaitGroup
		for _, node := range []uint64{10, 12} {
			wg.Go(func() {
				p := r.push(node, 3)
				resp, err := r.send(t.Context(), request(p), of(node))
				if err != nil {
					t.Errorf("node %d: %v", node, err)
					return
				}
				if v, ok := resp.Message.(*wire.Value); !ok || v.Round != 4 || v.N != rigValues || len(resp.Payload) != 1 || !slices.Equal(resp.Payload[0], want) || resp.Order != p.Order() {
					t.Errorf("node %d: got %+v, want the value of round 4, %v, in order %d", node, resp, want, p.Order())
				}
				resp.Release()
			})
			synctest.Wait()
		}
		if values, errs := r.all(r.push(11, 3)); errs[0] != nil || !slices.Equal(values[0], want) {
			t.Errorf("the leader's own: got %v, %v, want %v", values[0], errs[0], want)
		}
		wg.Wait()
	})
}

// What is no push, or is cut off, is refused wherever it comes in.
func TestRequestsThatAreNoPushAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		good := r.push(10, 0)
		other := request(good)
		other.Kind = wire.KindPull
		cut := request(good)
		cut.Head = cut.Head[:len(cut.Head)-1]
		for _, c := range []struct {
			name string
			req  *transport.Request
			want wire.Code // 0: no refusal, an error
		}{{"a pull", other, wire.CodeUnsupported}, {"a head that is cut off", cut, 0}} {
			_, buffer := r.s.Buffer(c.req, 4*rigValues)
			_, borrow := r.s.Borrow(c.req, new(transport.Loan))
			_, serve := r.s.Serve(t.Context(), c.req)
			for i, err := range []error{buffer, borrow, serve} {
				if err == nil || codeOf(err) != c.want {
					t.Errorf("%s: %s: got %v, want code %v", c.name, []string{"Buffer", "Borrow", "Serve"}[i], err, c.want)
				}
				if refusal := (*transport.Refusal)(nil); errors.As(err, &refusal) && refusal.Generation != 0 {
					t.Errorf("%s: the answer names generation %d, want none", c.name, refusal.Generation)
				}
			}
			if c.req.Value != nil {
				t.Errorf("%s: a call was made of it", c.name)
			}
		}
		// The head is whole; the payload is none.
		if _, err := r.s.Borrow(request(good), new(transport.Loan)); codeOf(err) != wire.CodeSize {
			t.Errorf("a loan of nothing: got %v, want code %v", err, wire.CodeSize)
		}
		if _, err := r.s.Serve(t.Context(), request(good)); codeOf(err) != wire.CodeSize {
			t.Errorf("no payload: got %v, want code %v", err, wire.CodeSize)
		}
	})
}

// The payload has all bytes of the values and no more, in whichever codec they are.
func TestAPayloadHasTheBytesOfItsValues(t *testing.T) {
	for codec, want := range map[uint8]int{wire.CodecFloat32: 20, wire.CodecFloat16: 10, wire.CodecBFloat16: 10} {
		for n := 1; n <= 24; n++ {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				defer r.end()
				p := r.push(10, 0)
				p.Codec = codec
				req := request(p)
				_, err := r.s.Buffer(req, n)
				if n == want && err != nil || n != want && codeOf(err) != wire.CodeSize {
					t.Errorf("codec %d: a payload of %d bytes: got %v, want %d bytes alone to be taken", codec, n, err, want)
				}
				r.s.Drop(req)
			})
		}
	}
}

// A worker says over the connection, too, that it pushes for itself. Without a number that says
// nothing.
func TestAPushAloneComesAsAPushWithoutValues(t *testing.T) {
	for _, seq := range []uint64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			p := r.alonePush(12, 0)
			p.Seq = seq
			resp, err := r.s.Serve(t.Context(), request(p))
			if _, ok := resp.Message.(*wire.Ack); seq > 0 && (err != nil || !ok) {
				t.Errorf("got %+v, %v, want an Ack", resp, err)
			}
			if seq == 0 && codeOf(err) != wire.CodePushAlone {
				t.Errorf("without a number: got %v, want code %v", err, wire.CodePushAlone)
			}
			began, want := time.Now(), 5*time.Second
			if seq > 0 {
				want = 0
			}
			if _, errs := r.all(r.push(10, 0), r.push(11, 0)); codeOf(errs[0]) != wire.CodePushAlone || time.Since(began) != want {
				t.Errorf("number %d: the others: got %v after %v, want code %v after %v", seq, errs, time.Since(began), wire.CodePushAlone, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		for name, edit := range map[string]func(p *wire.Push){
			"an answer is wanted": func(p *wire.Push) { p.Answer = true },
			"it has values":       func(p *wire.Push) { p.N = rigValues },
		} {
			p := r.alonePush(12, 0)
			edit(p)
			if resp, err := r.s.Serve(t.Context(), request(p)); err == nil {
				t.Errorf("%s: got %+v, want it refused", name, resp)
			}
		}
		began := time.Now()
		if _, errs := r.all(r.push(10, 0), r.push(11, 0), r.push(12, 0)); errors.Join(errs...) != nil || time.Since(began) != 0 {
			t.Errorf("the round after them: got %v after %v", errs, time.Since(began))
		}
	})
}

// Close waits until answers are written, which the connections say by Release, for a second at
// most.
func TestCloseWaitsForAnswersForASecond(t *testing.T) {
	for _, release := range []time.Duration{-1, 0, 300 * time.Millisecond, time.Hour} { // -1: there is no answer
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			dropped := request(r.push(10, 9))
			if _, err := r.s.Buffer(dropped, 4*rigValues); err != nil {
				t.Fatal(err)
			}
			r.s.Drop(dropped)
			r.s.Drop(&transport.Request{}) // it was refused
			if release >= 0 {
				var responses []transport.Response
				var mu sync.Mutex
				var wg sync.WaitGroup
				for _, node := range []uint64{10, 12} {
					wg.Go(func() {
						resp, err := r.send(t.Context(), request(r.push(node, 0)), of(node))
						if err != nil {
							t.Errorf("node %d: %v", node, err)
							return
						}
						mu.Lock()
						responses = append(responses, resp)
						mu.Unlock()
					})
				}
				synctest.Wait()
				r.all(r.push(11, 0))
				wg.Wait()
				responses[0].Release()
				if r.pool.Taken() == 0 {
					t.Error("the value was given back while an answer with it is being written")
				}
				if release == 0 {
					responses[1].Release()
				} else {
					time.AfterFunc(release, responses[1].Release)
				}
			}
			began := time.Now()
			r.s.Close()
			if took, want := time.Since(began), min(max(release, 0), time.Second); took != want {
				t.Errorf("released after %v: Close took %v, want %v", release, took, want)
			}
			time.Sleep(2 * time.Hour)
			if got := r.pool.Taken(); got != 0 {
				t.Errorf("released after %v: %d bytes are still in use", release, got)
			}
		})
	}
}

// A closed Server refuses every push. A push that waits in it is told to go to the shard's server
// by itself.
func TestCloseRefusesWhatWaitsAndWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		time.AfterFunc(time.Second, r.s.Close)
		began := time.Now()
		if _, errs := r.all(r.push(10, 0)); codeOf(errs[0]) != wire.CodePushAlone || time.Since(began) != time.Second {
			t.Errorf("a push that waits: got %v after %v, want code %v after 1 s", errs[0], time.Since(began), wire.CodePushAlone)
		}
		if _, errs := r.all(r.push(10, 1)); codeOf(errs[0]) != wire.CodePushAlone {
			t.Errorf("a push after it: got %v, want code %v", errs[0], wire.CodePushAlone)
		}
		r.end()
	})
}

// The leader's own gradient may come in pieces, and the room for the value is checked.
func TestTheLeadersOwnCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		whole, want := of(11), floats(33, 3, 3e8, -3e8, 33)
		for round, c := range []struct {
			room    int
			payload [][]byte
			want    wire.Code
		}{
			{20, [][]byte{whole}, 0},
			{24, [][]byte{whole[:8], whole[8:12], whole[12:]}, 0},
			{20, [][]byte{whole, nil}, 0},
			{19, [][]byte{whole}, wire.CodeSize},
		} {
			var own []byte
			var err error
			time.AfterFunc(time.Millisecond, func() {
				var v wire.Value
				own, err = r.s.Call(t.Context(), r.push(11, uint64(round)), &v, make([]byte, c.room), c.payload...)
			})
			values, errs := r.all(r.push(10, uint64(round)), r.push(12, uint64(round)))
			synctest.Wait() // the own call has returned
			if errors.Join(errs...) != nil || !slices.Equal(values[0], want) {
				t.Errorf("%d pieces: the others: got %v, %v, want %v", len(c.payload), values[0], errs, want)
			}
			if refusal := (*transport.Refusal)(nil); errors.As(err, &refusal) && refusal.Generation != 0 {
				t.Errorf("the answer names generation %d, want none", refusal.Generation)
			}
			if codeOf(err) != c.want || c.want == 0 && !slices.Equal(own, want) {
				t.Errorf("%d pieces, room for %d bytes: got %v, %v, want code %v", len(c.payload), c.room, own, err, c.want)
			}
		}
	})
}

// A sum says of each contribution what its worker measured and how long it waited, and of the round
// what they have in common.
func TestASumTellsOfItsContributions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var into []int
		r := newRig(t, func(cfg *Config) {
			forward := cfg.Forward
			cfg.Forward = func(ctx context.Context, f *Forwarded) error {
				into = append(into, len(f.Into))
				return forward(ctx, f)
			}
		})
		defer r.end()
		for round, codec := range []uint8{wire.CodecFloat32, wire.CodecBFloat16} {
			push := func(node uint64) *wire.Push {
				p := r.push(node, uint64(round))
				p.AnswerCodec, p.WaitMillis, p.Examples, p.Counted = codec, 10_000+uint32(node), 100+node, node == 12
				p.Step = wire.Step{Measure: true, Rate: wire.RoundRate{Scaled: true, Factor: 2}, Micro: uint32(node), MicroSqr: float64(node) / 2}
				return p
			}
			time.AfterFunc(time.Second, func() { r.call(push(12)) })
			time.AfterFunc(3*time.Second, func() { r.call(push(11)) })
			if err := r.call(push(10)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := r.sent[round]
			if want := (wire.Step{Measure: true, Rate: wire.RoundRate{Scaled: true, Factor: 2}}); got.Step != want || got.WaitMillis != 10_011 || got.AnswerCodec != codec || got.N != rigValues {
				t.Errorf("the sum: got %+v, want step %+v, the wait of the last push and its codec, %d", got, want, codec)
			}
			for i, early := range []time.Duration{3 * time.Second, 0, 2 * time.Second} {
				node := uint64(10 + i)
				want := wire.Contributor{Node: node, Seq: uint64(round) + 1, Weight: float32(node), Counted: node == 12, Micro: uint32(node), MicroSqr: float64(node) / 2,
					Sqr: 2*float64(node*node) + 1 + 2e16, Early: uint64(early), Examples: 100 + node}
				c := got.Contributors[i]
				if math.Abs(c.Sqr/want.Sqr-1) < 1e-12 { // but for rounding
					want.Sqr = c.Sqr
				}
				if c != want {
					t.Errorf("codec %d: contribution %d: got %+v, want %+v", codec, i, c, want)
				}
			}
			if want := map[uint8]int{wire.CodecFloat32: 20, wire.CodecBFloat16: 10}[codec]; into[round] != want {
				t.Errorf("codec %d: the answer has room for %d bytes, want %d", codec, into[round], want)
			}
		}
	})
}

// With AnyOrder a gradient is in the sum when it comes, and not when those of lower ranks have.
func TestInAnyOrderGradientsAreAddedAsTheyCome(t *testing.T) {
	for _, anyOrder := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(cfg *Config) { cfg.AnyOrder = anyOrder })
			defer r.end()
			var wg sync.WaitGroup
			wg.Go(func() { r.call(r.push(12, 0)) })
			synctest.Wait()
			if got := r.s.shards[shardID{r.key, 0}].rounds[0].slots[2].added; got != anyOrder {
				t.Errorf("any order %v: the gradient of rank 5 is in the sum: %v", anyOrder, got)
			}
			if _, errs := r.all(r.push(11, 0), r.push(10, 0)); errors.Join(errs...) != nil || len(r.sums) != 1 || !slices.Equal(r.sums[0], floats(33, 3, 3e8, -3e8, 33)) {
				t.Errorf("any order %v: got %v and the sums %v", anyOrder, errs, r.sums)
			}
			wg.Wait()
		})
	}
	// A gradient that was taken back keeps those of higher ranks from being added only where
	// the order counts.
	for _, anyOrder := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(cfg *Config) { cfg.AnyOrder = anyOrder })
			defer r.end()
			var wg sync.WaitGroup
			wg.Go(func() { r.call(r.push(11, 0)) })
			synctest.Wait()
			c := r.lendGone(10)
			if got := c.round.slots[1].added; got != anyOrder {
				t.Errorf("any order %v: the gradient of rank 2 is in the sum: %v", anyOrder, got)
			}
			if _, errs := r.all(r.push(12, 0), r.push(10, 0)); errors.Join(errs...) != nil || len(r.sent) != 1 {
				t.Errorf("any order %v: got %v and %d sums", anyOrder, errs, len(r.sent))
			}
			wg.Wait()
			c.finish()
		})
	}
}

// A leader keeps so many rounds of a shard and no more; the workers push those for themselves that
// come on top.
func TestALeaderKeepsABoundedNumberOfRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		var waiting sync.WaitGroup
		for round := range uint64(maxRounds) {
			waiting.Go(func() {
				if err := r.call(r.push(10, round)); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if _, errs := r.all(r.push(12, maxRounds)); codeOf(errs[0]) != wire.CodePushAlone || time.Since(began) != 0 {
			t.Errorf("one more: got %v after %v, want code %v", errs[0], time.Since(began), wire.CodePushAlone)
		}
		for round := range uint64(maxRounds) { // sequence numbers rise
			if _, errs := r.all(r.push(11, round), r.push(12, round)); errors.Join(errs...) != nil {
				t.Errorf("round %d: %v", round, errs)
			}
		}
		waiting.Wait()
	})
}

// Rounds may end in another order than they began. A push of any of them that comes again is
// refused.
func TestEndedRoundsAreRememberedInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		first := make(chan struct{})
		r.gate = first
		var wg sync.WaitGroup
		for _, node := range []uint64{10, 11, 12} {
			wg.Go(func() {
				if err := r.call(r.push(node, 0)); err != nil {
					t.Errorf("round 0: %v", err)
				}
			})
		}
		synctest.Wait()
		r.mu.Lock()
		r.gate = nil
		r.mu.Unlock()
		if _, errs := r.all(r.push(10, 1), r.push(11, 1), r.push(12, 1)); errors.Join(errs...) != nil {
			t.Errorf("round 1: %v", errs)
		}
		close(first)
		wg.Wait()
		for round := range uint64(2) {
			began := time.Now()
			if _, errs := r.all(r.push(10, round)); codeOf(errs[0]) != wire.CodePushAlone || time.Since(began) != 0 {
				t.Errorf("round %d again: got %v after %v, want code %v", round, errs[0], time.Since(began), wire.CodePushAlone)
			}
		}
	})
}

// The same membership, set a second time, ends no round. One with another worker, or of another
// generation, does.
func TestTheSameMembershipAgainEndsNothing(t *testing.T) {
	for _, c := range []struct {
		generation uint64
		nodes      []uint64
		want       wire.Code
	}{{1, []uint64{10, 11, 12}, 0}, {2, []uint64{10, 11, 12}, wire.CodeStaleGeneration}, {1, []uint64{10, 11, 13}, wire.CodeStaleGeneration}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			time.AfterFunc(time.Millisecond, func() {
				r.members(c.generation, c.nodes...)
				go r.call(r.push(11, 0))
				go r.call(r.push(12, 0))
			})
			if err := r.call(r.push(10, 0)); codeOf(err) != c.want {
				t.Errorf("generation %d of nodes %v: got %v, want code %v", c.generation, c.nodes, err, c.want)
			}
		})
	}
}

// A single worker on a host has no group to sum with; two workers have.
func TestSumsNeedTwoWorkers(t *testing.T) {
	for n, want := range map[int]wire.Code{1: wire.CodePushAlone, 2: 0} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			nodes := []uint64{11, 12}[:n]
			r.members(1, nodes...)
			for Leader(r.key, 0, n) != 0 {
				r.key++
			}
			var pushes []*wire.Push
			for _, node := range nodes {
				pushes = append(pushes, r.push(node, 0))
			}
			if _, errs := r.all(pushes...); codeOf(errs[0]) != want {
				t.Errorf("%d workers: got %v, want code %v", n, errs, want)
			}
		})
	}
}

// A push without a time to wait is answered at once, and one whose connection ends leaves its
// gradient behind.
func TestAPushWaitsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		for i, wait := range []uint32{0, 1, 700} {
			p := r.push(10, 0)
			p.WaitMillis = wait
			began, want := time.Now(), time.Duration(max(wait, 1))*time.Millisecond
			if _, errs := r.all(p); codeOf(errs[0]) != wire.CodeTimeout || time.Since(began) != want {
				t.Errorf("push %d, to wait for %d ms: got %v after %v, want code %v", i, wait, errs[0], time.Since(began), wire.CodeTimeout)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.s.Call(ctx, r.push(12, 0), new(wire.Value), make([]byte, 20), of(12)); codeOf(err) != wire.CodePushAlone {
			t.Errorf("a connection that has ended: got %v, want code %v", err, wire.CodePushAlone)
		}
		if _, errs := r.all(r.push(11, 0)); errs[0] != nil {
			t.Errorf("the last one: %v", errs[0])
		}
	})
}

// A sum of halves and of float32 is of float32, whoever has which.
func TestASumIsFloat32IfOneGradientIs(t *testing.T) {
	for _, single := range []uint64{10, 11, 12} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			half := binary.LittleEndian.AppendUint16(nil, 0x3c00) // 1
			half = slices.Repeat(half, rigValues)
			var wg sync.WaitGroup
			for _, node := range []uint64{10, 11, 12} {
				p, payload := r.push(node, 0), floats(1, 1, 1, 1, 1)
				if node != single {
					p.Codec, payload = wire.CodecFloat16, half
				}
				wg.Go(func() {
					if _, err := r.s.Call(t.Context(), p, new(wire.Value), make([]byte, 20), payload); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if len(r.sums) != 1 || r.sent[0].Codec != wire.CodecFloat32 || !slices.Equal(r.sums[0], floats(3, 3, 3, 3, 3)) {
				t.Errorf("float32 of node %d: got codec %d, %v", single, r.sent[0].Codec, r.sums)
			}
		})
	}
}

// All processes of a host choose the same leader, of whatever build they are.
func TestLeadersStayTheSame(t *testing.T) {
	got := ""
	for _, key := range []uint64{0, 1, 2, 1000, 1 << 43} {
		for _, shard := range []uint32{0, 1, 70000} {
			got += fmt.Sprint(Leader(key, shard, 2), Leader(key, shard, 7), Leader(key, shard, 1000), ";")
		}
	}
	const want = "0 0 0;0 0 604;1 6 607;0 6 404;0 3 624;1 0 983;1 5 621;0 1 474;0 6 632;0 2 988;0 5 14;0 0 422;1 0 707;0 3 650;0 5 948;"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What a Config leaves out has a default: rounds wait for 5 s, and there is memory.
func TestAServerNeedsLengthAndForwardAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(cfg *Config) { cfg.Pool, cfg.Logger, cfg.Wait = nil, nil, -time.Second })
		defer r.end()
		if !r.s.env.pool.Shared {
			t.Error("other processes cannot see the memory")
		}
		began := time.Now()
		if _, errs := r.all(r.push(10, 0), r.push(11, 0)); codeOf(errs[0]) != wire.CodePushAlone || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %v, want code %v after 5 s", errs, time.Since(began), wire.CodePushAlone)
		}
		if _, errs := r.all(r.push(10, 1), r.push(11, 1), r.push(12, 1)); errors.Join(errs...) != nil {
			t.Errorf("the next round: got %v", errs)
		}
	})
}
