package bridge

import (
	"encoding/json"
	"log/slog"
	"maps"
	"testing"
)

// Whatever bytes come as exchanges, of which some may be right ones, the session answers each that
// has the protocol's form, and ends for any other.
func FuzzExchange(f *testing.F) {
	right := exchangePacketOf(exchangePacket{flags: flagAnswer, plan: 1, number: 1, count: 2, weight: 1, examples: 3})
	f.Add(right)
	f.Add(append(right, exchangePacketOf(exchangePacket{flags: flagPushOnly, plan: 1, number: 2, first: 1, count: 1})...))
	f.Add(exchangePacketOf(exchangePacket{plan: 2, number: 1, first: 1<<32 - 1, count: 1<<32 - 1}))
	f.Add([]byte("X"))
	f.Fuzz(func(t *testing.T, packets []byte) {
		p := newPython(t, nil).join("local")
		_, plan := p.plan(3, 4)
		if plan != 1 {
			t.Fatalf("got plan %d, want 1", plan)
		}
		right := 0
		for len(packets) > 0 {
			n := min(len(packets), exchangeBytes)
			packet := append([]byte{kindExchange}, packets[1:n]...)
			packets = packets[n:]
			p.write(packet)
			x, err := decodeExchange(packet)
			if err != nil || x.number != uint64(right+1) || right >= maxExchanges {
				if e := p.note("failed"); right < maxExchanges && e["number"] == float64(0) && e["error"].(map[string]any)["class"] != "Protocol" {
					t.Fatalf("got %v, want the end of the session", e)
				}
				return
			}
			right++
			p.exchanged++
		}
		p.wait(p.exchange(flagAnswer, 0, 0, 0, 0))
		for n := uint64(1); n <= p.exchanged; n++ {
			if state := p.word(n); state != stateDone && state != stateFailed {
				t.Fatalf("exchange %d has state %d in its word", n, state)
			}
		}
	})
}

// Whatever a request says, it has a result or an error that fit into a packet, and the session goes
// on. Requests that write files, or end the session, are left out.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"op": "memory", "lengths": [3, 70000]}`, `{"op": "free", "region": 1}`, `{"op": "state"}`, `{"op": "usage"}`,
		`{"op": "init", "keys": [{"key": "b", "form": "dense", "region": 1, "slot": 1, "size": 4, "shape": [2, 2]}]}`,
		`{"op": "init", "keys": [{"key": "t", "form": "rows", "rows": 4, "row_len": 2}]}`,
		`{"op": "plan", "entries": [{"key": "key0", "region": 1, "grad": 0, "out": 1}]}`, `{"op": "extend", "plan": 1, "entries": []}`, `{"op": "drop_plan", "plan": 1}`,
		`{"op": "pushpull", "keys": [{"key": "key0", "region": 1, "grad": 0, "out": 2}], "weight": 2}`,
		`{"op": "push", "keys": [{"key": "key0", "region": 1, "slots": [0, 2]}]}`, `{"op": "pull", "keys": [{"key": "key0", "region": 1, "slots": [0]}]}`,
		`{"op": "broadcast", "region": 1, "slot": 0, "bytes": 3}`, `{"op": "barrier"}`, `{"op": "cancel", "request": 5}`,
		`{"op": "set_optimizer", "config": {"name": "adam", "learning_rate": 0.1}}`, `{"op": "set_compression", "config": {"type": "none"}}`,
		`{"op": "set_learning_rate", "round": 3, "rate": 0.5}`, `{"op": "table", "key": "t", "row_len": 4, "max_rows": 5, "initializer": {"name": "normal", "deviation": 1}}`,
		`{"op": "push_rows", "key": "t", "region": 1, "ids": 0, "n": 1, "values": 1}`, `{"op": "pull_rows", "key": "t", "region": 1, "ids": 0, "n": 1, "values": 1}`,
		`{"op": "sampler", "examples": 10, "batch": 3, "epochs": 2, "seed": 1}`, `{"op": "turn"}`, `{"op": "indices", "region": 1, "slot": 0, "first": 0, "count": 2}`,
		`{"op": "report", "step": {"loss": 1, "examples": 3, "seconds": 0.1}}`, `{"op": "leave", "reason": "x"}`, `{"op": "join", "protocol": 1, "store": "local"}`,
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		p := newPython(t, func(s *session) {
			s.memory.most = 4 << 20
			s.operations = maps.Clone(operations)
			for _, op := range []string{"save", "load", "close", "abort"} {
				delete(s.operations, op)
			}
		}).join("local")
		p.plan(3, 20000)
		for _, text := range []string{first, second} {
			var m map[string]json.RawMessage
			if json.Unmarshal([]byte(text), &m) != nil || len(text) > maxPacket/2 {
				return
			}
			// Other spellings of the same names would count, too.
			for name := range m {
				if len(name) == 2 && (name[0]|0x20 == 'i') && (name[1]|0x20 == 'd') {
					delete(m, name)
				}
			}
			p.requested++
			m["id"] = json.RawMessage([]byte{byte('0' + p.requested)})
			packet, err := encode(headJSON, m)
			if err != nil {
				return
			}
			var q request
			if json.Unmarshal(packet[1:], &q) != nil {
				return
			}
			p.write(packet)
			if e := p.await(p.requested, nil); e != nil && (e.Class == "" || e.Text == "") {
				t.Errorf("%s: got the error %+v", text, e)
			}
		}
	})
}

// The log's lines about waits come as they are, with whatever attributes.
func TestWaitingNotesLeaveOtherLinesAlone(t *testing.T) {
	notes := make(chan waitingNote, 1)
	log := slog.New(waitingNotes{slog.DiscardHandler, notes})
	log.With("key", "k").WithGroup("g").Info("nothing", "call", 3, "round", "x", "seconds", nil)
	if len(notes) != 0 {
		t.Errorf("got the note %+v of a line that is about no wait", <-notes)
	}
}
