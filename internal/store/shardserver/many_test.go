package shardserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A part is one push of a message of many, with its payload.
type part struct {
	m *wire.Push
	b []byte
}

func partOf(rank int, key, round uint64, answer bool, grad ...float32) part {
	m, b := push(rank, key, round, grad...)
	m.Answer = answer
	return part{m, b}
}

func together(parts ...part) (*wire.PushMany, []byte) {
	m, payload := &wire.PushMany{}, []byte(nil)
	for _, p := range parts {
		m.Pushes = append(m.Pushes, wire.SizedPush{Push: *p.m, Size: uint32(len(p.b))})
		payload = append(payload, p.b...)
	}
	return m, payload
}

// results says what became of each push: ok, its value after so many rounds, or the code that
// refused it.
func results(m *wire.PushMany, answer wire.Message, payload []byte) (text string) {
	a := answer.(*wire.PushedMany)
	v, r := 0, 0
	for i, p := range m.Pushes {
		if i > 0 {
			text += ", "
		}
		var value wire.Value
		if p.Answer {
			value = a.Values[v]
			v++
		}
		switch {
		case r < len(a.Refused) && a.Refused[r].Index == uint32(i):
			text += a.Refused[r].Code.String()
			if value != (wire.Value{}) {
				text += " with a value"
			}
			r++
		case p.Answer:
			n := 4 * int(value.N)
			text += fmt.Sprintf("%d: %v", value.Round, unfloats(payload[:n]))
			payload = payload[n:]
		default:
			text += "ok"
		}
	}
	if v != len(a.Values) || r != len(a.Refused) || len(payload) != 0 {
		text += fmt.Sprintf("; and %d values, %d refusals and %d bytes too many", len(a.Values)-v, len(a.Refused)-r, len(payload))
	}
	return text
}

func (r *rig) wantResults(want string, parts ...part) {
	r.t.Helper()
	m, payload := together(parts...)
	answer, out := r.must(m, payload)
	if got := results(m, answer, out); got != want {
		r.t.Errorf("results:\n got %s\nwant %s", got, want)
	}
}

// Each push of a message of many counts, fails and is answered by itself.
func TestPushesOfOneMessageCountAndFailByThemselves(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, 0)
	r.init(1, 0, 0)
	r.init(2, make([]float32, promptValues+1)...)
	r.initRows(3, 4, 2)
	r.init(4)
	taken := r.s.pool.Taken()
	r.wantResults("ok, 1: [2 3], wrong size, unknown key, unsupported, ok",
		partOf(0, 0, 0, false, 1), partOf(0, 1, 0, true, 2, 3), partOf(0, 1, 1, true, 2, 3, 4), partOf(0, 9, 0, false, 1), partOf(0, 3, 0, false, 1), partOf(0, 4, 0, false))
	// Sent again, whole, in part or alone, they count once.
	r.wantResults("1: [1], 1: [2 3]", partOf(0, 0, 0, true, 1), partOf(0, 1, 0, true, 2, 3))
	single, b := push(0, 1, 0, 2, 3)
	r.must(single, b)
	r.wantValue(0, 0, 1, 1)
	r.wantValue(0, 1, 1, 2, 3)
	// With a large shard among them they go to a goroutine, and are not tried twice.
	large := make([]float32, promptValues+1)
	r.wantResults("ok, ok", partOf(0, 2, 0, false, large...), partOf(0, 0, 1, false, 5))
	r.wantValue(0, 0, 2, 5)
	// Two rounds of one key in one message follow one another.
	r.wantResults("3: [6], 4: [7]", partOf(0, 0, 2, true, 6), partOf(0, 0, 3, true, 7))
	r.wantTaken(taken)
}

// Codecs whose payloads have no fixed size, or an odd one, do not move those that follow.
func TestPushesOfOneMessageHaveCodecsOfTheirOwn(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, 0, 0, 0)
	r.init(1, 0, 0, 0, 0)
	r.init(2, 0)
	half := partOf(0, 0, 0, true, 1, 2, 3)
	half.m.Codec, half.b = wire.CodecBFloat16, []byte{0x80, 0x3f, 0, 0x40, 0x40, 0x40}
	top := partOf(0, 1, 0, true, 0, 0, 0, 0)
	top.m.Codec, top.b = wire.CodecTopK, append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, append(floats(9), 2)...)
	r.wantResults("1: [1 2 3], 1: [0 0 9 0], 1: [5]", half, top, partOf(0, 2, 0, true, 5))
}

// What is wrong with the message as a whole refuses all of it, and nothing counts.
func TestAMessageOfManyThatIsNotOneIsRefused(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, 0)
	r.init(1, 0)
	taken := r.s.pool.Taken()
	good := func() []part { return []part{partOf(0, 0, 0, false, 1), partOf(0, 1, 0, false, 2)} }
	for _, c := range []struct {
		name string
		edit func(m *wire.PushMany, payload []byte) []byte
		code wire.Code
		text string
	}{
		{"two senders", func(m *wire.PushMany, b []byte) []byte { m.Pushes[1].Node = 11; return b }, wire.CodeMalformed, "push 1 is of rank 0, node 11, in generation 1, want rank 0, node 10"},
		{"two ranks", func(m *wire.PushMany, b []byte) []byte { m.Pushes[1].Rank = 1; return b }, wire.CodeMalformed, "push 1 is of rank 1"},
		{"two generations", func(m *wire.PushMany, b []byte) []byte { m.Pushes[1].Generation = 2; return b }, wire.CodeMalformed, "in generation 2, want"},
		{"a byte too few", func(_ *wire.PushMany, b []byte) []byte { return b[:7] }, wire.CodeSize, "got 7 bytes of payload, want 8 for 2 pushes"},
		{"a byte too many", func(_ *wire.PushMany, b []byte) []byte { return append(b, 0) }, wire.CodeSize, "got 9 bytes"},
		{"sizes beyond 32 bits", func(m *wire.PushMany, b []byte) []byte { m.Pushes[0].Size, m.Pushes[1].Size = 1<<32-1, 9; return b }, wire.CodeSize, "want 4294967304"},
		{"too much", func(m *wire.PushMany, _ []byte) []byte {
			m.Pushes[0].Size = wire.MaxManyPayload
			return make([]byte, wire.MaxManyPayload+4)
		}, wire.CodeSize, "at most 1048576"},
		{"none", func(m *wire.PushMany, _ []byte) []byte { m.Pushes = nil; return nil }, wire.CodeMalformed, "got no push"},
		{"an old generation", func(m *wire.PushMany, b []byte) []byte {
			m.Pushes[0].Generation, m.Pushes[1].Generation = 0, 0
			return b
		}, wire.CodeStaleGeneration, "stale generation"},
		{"a stranger", func(m *wire.PushMany, b []byte) []byte {
			m.Pushes[0].Node, m.Pushes[1].Node = 77, 77
			return b
		}, wire.CodeUnknownNode, "node 77 is not a worker"},
	} {
		m, payload := together(good()...)
		payload = c.edit(m, payload)
		if text := r.refused(m, payload, c.code); !strings.Contains(text, c.text) {
			t.Errorf("%s: got %q, want %q in it", c.name, text, c.text)
		}
		r.wantTaken(taken)
	}
	r.wantResults("ok, ok", good()...)
}

// Rounds wait for the other workers, and the message for the last of its rounds.
func TestPushesOfOneMessageWaitForTheirRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		for key := range uint64(3) {
			r.init(key, 0)
		}
		m, payload := together(partOf(0, 0, 0, true, 1), partOf(0, 1, 0, false, 2), partOf(0, 2, 0, true, 3))
		got := make(chan string, 1)
		go func() {
			answer, out := r.must(m, payload)
			got <- results(m, answer, out)
		}()
		synctest.Wait()
		r.wantResults("1: [11]", partOf(1, 0, 0, true, 10)) // another worker's messages are made in another way
		synctest.Wait()
		if len(got) != 0 {
			t.Errorf("an answer before the last round has closed: %s", <-got)
		}
		single, b := push(1, 2, 0, 30)
		r.must(single, b)
		if x, want := <-got, "1: [11], ok, 1: [33]"; x != want {
			t.Errorf("got %s, want %s", x, want)
		}
	})
}

// A contribution that is too early waits for its turn alone: the others of its message count at
// once, and close their rounds.
func TestAnEarlyPushOfAMessageHoldsBackNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		for key := range uint64(3) {
			r.init(key, 0)
		}
		r.wantResults("ok, ok", partOf(0, 0, 0, false, 1), partOf(0, 0, 1, false, 2))
		m, payload := together(partOf(0, 0, 2, true, 3), partOf(0, 1, 0, true, 4), partOf(0, 0, 3, false, 5), partOf(0, 2, 0, false, 6))
		got := make(chan string, 1)
		go func() {
			answer, out := r.must(m, payload)
			got <- results(m, answer, out)
		}()
		synctest.Wait()
		r.wantResults("1: [14], 1: [16]", partOf(1, 1, 0, true, 10), partOf(1, 2, 0, true, 10))
		for round := range uint64(3) { // each opens the way for the next
			r.wantResults("ok", partOf(1, 0, round, false, 10))
			synctest.Wait()
		}
		r.wantResults("4: [15]", partOf(1, 0, 3, true, 10))
		if x, want := <-got, "3: [13], 1: [14], ok, ok"; x != want {
			t.Errorf("got %s, want %s", x, want)
		}
	})
}

// A round that does not close refuses its push alone, after the wait that was asked for; what is
// ready is answered with it.
func TestAPushThatWaitsTooLongIsRefusedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		for key := range uint64(3) {
			r.init(key, 0)
		}
		taken := r.s.pool.Taken()
		r.wantResults("ok", partOf(1, 1, 0, false, 10))
		began := time.Now()
		r.wantResults("timed out, 1: [12], timed out", partOf(0, 0, 0, true, 1), partOf(0, 1, 0, true, 2), partOf(0, 2, 0, true, 3))
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited %v, want 1s, however many wait", waited)
		}
		r.wantResults("1: [11], 1: [13]", partOf(1, 0, 0, true, 10), partOf(1, 2, 0, true, 10))
		r.wantResults("1: [11], 1: [13]", partOf(0, 0, 0, true, 1), partOf(0, 2, 0, true, 3)) // the repeat
		r.wantTaken(taken)
	})
}

// The pushes of one worker that are under way in such messages are bounded; those of a connection
// that ends are given back.
func TestPushesUnderWayInMessagesOfManyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.s.limits.many = 4
		r.init(0, 0)
		r.init(1, 0)
		taken := r.s.pool.Taken()
		ctx, cancel := context.WithCancel(t.Context())
		var waiting []chan error
		for range 2 {
			m, payload := together(partOf(0, 0, 0, true, 1), partOf(0, 1, 0, true, 1))
			waiting = append(waiting, r.start(ctx, m, payload))
		}
		synctest.Wait()
		one, b := together(partOf(0, 0, 0, false, 1))
		if text := r.refused(one, b, wire.CodeBusy); !strings.Contains(text, "4 pushes of worker 0 on a (node 10, pid 100) are under way in such messages already, got 1, want at most 4") {
			t.Errorf("got %q", text)
		}
		r.wantResults("ok, ok", partOf(1, 0, 1, false, 1), partOf(1, 1, 1, false, 1)) // others are not held back
		cancel()
		for _, done := range waiting {
			if err := <-done; err != nil { // each push is refused, the message is not
				t.Error(err)
			}
		}
		r.wantResults("1: [2], 1: [2]", partOf(1, 0, 0, true, 1), partOf(1, 1, 0, true, 1))
		r.wantResults("1: [2]", partOf(0, 0, 0, true, 1))
		r.wantTaken(taken + 2*8) // the contributions to round 1
	})
}

func TestADroppedMessageOfManyGivesEverythingBack(t *testing.T) {
	r := newRig(t, 1)
	r.init(0, 1)
	r.init(1, 1)
	taken := r.s.pool.Taken()
	m, b := together(partOf(0, 0, 0, false, 1), partOf(0, 1, 0, false, 2), partOf(0, 9, 0, false, 2))
	for range 2 * maxPushes {
		req := newRequest(m)
		if _, err := r.s.Buffer(req, len(b)); err != nil {
			t.Fatal(err)
		}
		r.s.Drop(req)
	}
	r.wantTaken(taken)
	r.wantTaken(taken)
	answer, out := r.must(m, b)
	if got, want := results(m, answer, out), "ok, ok, unknown key"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
