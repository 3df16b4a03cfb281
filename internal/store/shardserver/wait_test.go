package shardserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

func newRequest(m wire.Message) *transport.Request {
	return &transport.Request{Kind: m.Kind(), Head: wire.AppendHead(nil, m)}
}

// start serves a request in the background; the channel gets its error.
func (r *rig) start(ctx context.Context, m wire.Message, payload []byte) chan error {
	done := make(chan error, 1)
	go func() {
		_, _, err := r.call(ctx, m, payload)
		done <- err
	}()
	return done
}

func wantCode(t *testing.T, err error, code wire.Code) {
	t.Helper()
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) || refusal.Code != code {
		t.Errorf("got %v, want a refusal: %v", err, code)
	}
}

func TestWaitThatRunsOutNamesWhomItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRigConfig(t, 3, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r.init(0, 0)
		for _, rank := range []int{0, 2} {
			m, b := push(rank, 0, 0, 1)
			r.must(m, b)
		}
		m, b := push(1, 0, 0, 1)
		m.Generation = 0 // heard of, refused
		time.Sleep(4 * time.Second)
		r.refused(m, b, wire.CodeStaleGeneration)
		r.must(&wire.AwaitShard{Origin: origin(1, 0, 0)}, nil)
		p := pull(0, 0, 1)
		p.WaitMillis = 30_000
		text := r.refused(p, nil, wire.CodeTimeout)
		for _, want := range []string{
			`pull of key "w0" shard 0 by worker 0 on a (node 10, pid 100) has waited 30s for 1 rounds: worker 1 on b (node 11, pid 101) has contributed 0 times, was last heard from 30s ago`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("text: got\n%s\nwant in it\n%s", text, want)
			}
		}
		if got := strings.Count(log.String(), "msg=\"server: pull of key"); got < 2 || got > 4 {
			t.Errorf("log: got %d lines that explain the wait, want 2 to 4:\n%s", got, log.String())
		}
	})
}

func TestPushTwoAheadWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.init(0, 0)
		for round := range uint64(2) {
			m, b := push(0, 0, round, 1)
			r.must(m, b)
		}
		m, b := push(0, 0, 2, 1)
		waits := r.start(t.Context(), m, b)
		synctest.Wait()
		select {
		case err := <-waits:
			t.Fatalf("a push two ahead: got an answer (%v), want it to wait", err)
		default:
		}
		m, b = push(1, 0, 0, 10)
		r.must(m, b)
		if err := <-waits; err != nil {
			t.Fatal(err)
		}
		r.wantValue(0, 0, 1, 11)
	})
}

func TestWaitsEndWithConnectionAndJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.init(0, 0)
		taken := r.s.pool.Taken()
		requests := func(ctx context.Context) []chan error {
			p := pull(0, 0, 1)
			p.WaitMillis = 1 << 31
			ahead, b := push(0, 0, 5, 1)
			ahead.WaitMillis = 1 << 31
			state := &wire.ReadState{Origin: origin(0, 0, 0), Round: 9, WaitMillis: 1 << 31}
			await := &wire.AwaitShard{Origin: origin(0, 8, 0), WaitMillis: 1 << 31}
			newer := pull(0, 0, 0)
			newer.Generation = 2
			return []chan error{r.start(ctx, p, nil), r.start(ctx, ahead, b), r.start(ctx, state, nil), r.start(ctx, await, nil), r.start(ctx, newer, nil)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		list := requests(ctx)
		synctest.Wait()
		cancel()
		for i, done := range list {
			want := wire.CodeUnavailable
			if i == 4 {
				want = wire.CodeStaleGeneration
			}
			wantCode(t, <-done, want)
		}
		r.wantTaken(taken)

		list = requests(t.Context())
		synctest.Wait()
		r.s.Fail("worker 1 on b failed")
		for _, done := range list {
			err := <-done
			wantCode(t, err, wire.CodeUnavailable)
			if !strings.Contains(err.Error(), "worker 1 on b failed") {
				t.Errorf("got %v, want the job's reason in it", err)
			}
		}
		r.refused(pull(0, 0, 0), nil, wire.CodeUnavailable)
		r.wantTaken(taken)
	})
}

func TestNewerGenerationWaitsForTheNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.init(0, 0)
		newer := func() (*wire.Push, []byte) {
			m, b := push(0, 0, 0, 3)
			m.Generation = 2
			return m, b
		}
		m, b := newer()
		done := r.start(t.Context(), m, b)
		synctest.Wait()
		r.members(2, 1) // rank 1 has left: the round closes over rank 0
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		p := pull(0, 0, 1)
		p.Generation = 2
		if m, _ := r.must(p, nil); m.(*wire.Value).Generation != 2 {
			t.Errorf("generation the round closed under: got %v, want 2", m)
		}
		p.Generation = 1
		r.refused(p, nil, wire.CodeStaleGeneration)
		p.Generation = 3
		began := time.Now()
		r.refused(p, nil, wire.CodeStaleGeneration)
		if got := time.Since(began); got != 5*time.Second {
			t.Errorf("a generation that never comes: refused after %v, want 5s", got)
		}
	})
}

func TestLostWorkerDoesNotHangTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.init(0, 0)
		for rank := range 2 {
			m, b := push(rank, 0, 0, float32(rank+1))
			r.must(m, b)
		}
		p := pull(0, 0, 1)
		p.WaitMillis = 60_000
		done := r.start(t.Context(), p, nil)
		synctest.Wait()
		r.members(2, 2)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		p.Generation = 2
		if _, out := r.must(p, nil); unfloats(out)[0] != 3 {
			t.Errorf("sum of the survivors: got %v, want 3", unfloats(out))
		}
	})
}

func TestOneWorkerCannotTakeMemoryWithoutBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.init(0, 0)
		taken := r.s.pool.Taken()
		ctx, cancel := context.WithCancel(t.Context())
		var list []chan error
		for i := range uint64(100) { // far ahead, all with their payload
			m, b := push(0, 0, 10+i, 1)
			m.WaitMillis = 60_000
			list = append(list, r.start(ctx, m, b))
			p := pull(0, 0, 10+i)
			p.WaitMillis = 60_000
			list = append(list, r.start(ctx, p, nil))
		}
		synctest.Wait()
		if got, most := r.s.pool.Taken()-taken, int64(maxPushes*64); got > most {
			t.Errorf("payloads held: got %d bytes, want at most %d", got, most)
		}
		m, b := push(1, 0, 0, 1) // others are not held back
		r.must(m, b)
		cancel()
		busy := 0
		for _, done := range list {
			var refusal *transport.Refusal
			if errors.As(<-done, &refusal) && refusal.Code == wire.CodeBusy {
				busy++
			}
		}
		if want := 200 - maxPushes - maxPulls; busy != want {
			t.Errorf("refused as busy: got %d, want %d", busy, want)
		}
	})
}

// Whatever bytes come, the server answers; nothing panics and nothing stays taken.
func FuzzRequest(f *testing.F) {
	p, b := push(0, 0, 0, 1, 2)
	sum, _ := push(0, 0, 0, 1, 2)
	sum.Seq, sum.Weight, sum.Contributors = 0, 0, contributors(10, 11)
	for _, m := range []wire.Message{
		p, pull(0, 0, 0), sum, &wire.Profile{Origin: origin(0, 0, 0)}, &wire.Replicate{}, &wire.Fill{}, &wire.FillPart{},
		&wire.PushRows{Origin: origin(0, 1, 1), Rows: 1, WaitMillis: 1},
		&wire.PullRows{Origin: origin(0, 1, 1), Rows: 1, WaitMillis: 1},
		&wire.InitShard{Origin: origin(0, 3, 0), Form: 1, Rule: 1, Length: 2, Size: 2, Shards: 1, Name: "x"},
		&wire.WriteState{Init: wire.InitShard{Origin: origin(0, 4, 0), Form: 2, Rule: 1, Length: 2, Size: 2, RowLen: 1, Shards: 1, Name: "x"}, Slots: []string{"m"}},
		&wire.SetOptimizer{Origin: origin(0, 0, 0), Mode: 1, Config: `{"name":"lamb"}`},
		&wire.SetRate{Origin: origin(0, 0, 0), Round: 3, Rate: 1},
		&wire.ReadState{Origin: origin(0, 0, 0)},
		&wire.PushRows{Origin: origin(0, 2, 1), Rows: 1, WaitMillis: 1},
		&wire.InitShard{Origin: origin(0, 3, 0), Form: 3, Rule: 1, RowLen: 2, Shards: 1, Zeros: true, Name: "x", Table: `{"initializer":{"name":"normal"},"max_rows":9}`},
		&wire.InitShard{Origin: origin(0, 3, 0), Form: 2, Rule: 1, Length: 2, Size: 2, RowLen: 2, Shards: 1, Zeros: true, Name: "x", Table: `{"initializer":{"name":"uniform","high":1}}`},
		&wire.ReadRows{Origin: origin(0, 2, 0), Count: 3, WaitMillis: 1},
		&wire.WriteRows{Init: wire.InitShard{Origin: origin(0, 2, 0), Form: 3, Rule: 1, RowLen: 1, Shards: 1, Zeros: true, Name: "o2"}, First: true, Rows: 1},
		&wire.ReadUsage{Origin: origin(0, 0, 0)},
		&wire.AwaitShard{Origin: origin(0, 0, 0)},
		&wire.Heartbeat{},
	} {
		f.Add(uint8(m.Kind()), wire.AppendHead(nil, m), b)
		f.Add(uint8(m.Kind()), wire.AppendHead(nil, m), []byte(nil))
		f.Add(uint8(m.Kind()), wire.AppendHead(nil, m)[1:], b[1:])
	}
	top := &wire.Push{Origin: origin(0, 5, 1), Codec: wire.CodecTopK, N: 9, WaitMillis: 1}
	f.Add(uint8(top.Kind()), wire.AppendHead(nil, top), []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 4})
	many, b := together(partOf(0, 0, 0, true, 1, 2), partOf(0, 9, 0, true, 1), part{top, []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 4}}, partOf(0, 0, 2, false, 1, 2))
	f.Add(uint8(many.Kind()), wire.AppendHead(nil, many), b)
	f.Add(uint8(many.Kind()), wire.AppendHead(nil, many), b[1:])
	f.Fuzz(func(t *testing.T, kind uint8, head, payload []byte) {
		s := New(Config{MaxShards: 8, MaxBytes: 1 << 16, MaxWait: time.Microsecond, CatchUp: time.Microsecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		r := &rig{t, s}
		r.members(1, 2)
		r.init(0, 1, 2)
		r.initRows(1, 4, 1)
		r.initOpen(2, 1)
		r.init(5, make([]float32, 9)...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range 2 { // the second time it is a repeat
			req := &transport.Request{Kind: wire.Kind(kind), Head: head}
			if len(payload) > 0 {
				b, err := s.Buffer(req, len(payload))
				if err != nil {
					continue
				}
				if len(b) != len(payload) {
					t.Fatalf("buffer: got %d bytes, want %d", len(b), len(payload))
				}
				copy(b, payload)
			}
			resp, err := s.Serve(ctx, req)
			if err == nil && resp.Release != nil {
				resp.Release()
			}
		}
		if ctx.Err() != nil {
			t.Fatal("a request hangs")
		}
		if n := s.panics.Load(); n != 0 {
			t.Fatalf("got %d panics", n)
		}
		r.wantTaken(s.pool.Taken())
		// What is held now is bounded: values, and one contribution of the one sender.
		if got := s.pool.Taken(); got > 3*64+1<<17 {
			t.Fatalf("memory taken: got %d bytes", got)
		}
	})
}

func TestDroppedPayloadGivesEverythingBack(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, 1, 2)
	taken := r.s.pool.Taken()
	m, b := push(0, 0, 0, 1, 2)
	for range 2 * maxPushes {
		req := newRequest(m)
		if _, err := r.s.Buffer(req, len(b)); err != nil {
			t.Fatal(err)
		}
		r.s.Drop(req)
	}
	r.wantTaken(taken)
}
