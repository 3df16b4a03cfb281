package bridge

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
)

// Memory is given, used and given back; what uses it keeps it.
func TestMemoryIsFreedOnceNothingUsesIt(t *testing.T) {
	p := newPython(t, nil).join("dist_sync")
	region, plan := p.plan(10, 50000)
	for i, offset := range p.regions[region].Offsets {
		if large := p.regions[region].lengths[i] >= 50000; offset%64 != 0 || large && offset%4096 != 0 {
			t.Errorf("slot %d begins at %d", i, offset)
		}
	}
	refused := func(op string, args map[string]any, want string) {
		t.Helper()
		if e := p.ask(op, args, nil); e == nil || e.Class != "Usage" || !strings.Contains(e.Text, want) {
			t.Errorf("%s %v: got %+v, want class Usage and %q", op, args, e, want)
		}
	}
	free, drop := map[string]any{"region": region}, map[string]any{"plan": plan}
	refused("free", free, "2 users")
	p.mustAsk("extend", map[string]any{"plan": plan, "entries": []map[string]any{{"key": "key0", "region": region, "grad": 0, "out": 0}}}, nil)
	refused("free", free, "3 users")
	p.mustAsk("drop_plan", drop, nil)
	refused("drop_plan", drop, "no plan")
	p.mustAsk("free", free, nil)
	refused("free", free, "no region")
	refused("free", map[string]any{"region": 0}, "stays")
	refused("free", map[string]any{"region": -1}, "arguments")
	refused("plan", map[string]any{"entries": []map[string]any{{"key": "key0", "region": region, "grad": 0, "out": 0}}}, "no region")
	refused("plan", map[string]any{"entries": []any{}}, "0 entries")
	for _, lengths := range []any{[]int{}, []int{0}, []int{-5}, []int64{1 << 40}, []int{1 << 25, 1<<25 + 1}, make([]int, maxSlots+1), "all"} {
		refused("memory", map[string]any{"lengths": lengths}, "")
	}
	var made regionResult
	for i := range 3 * maxRegions {
		if e := p.ask("memory", map[string]any{"lengths": []int{5}}, &made); e != nil {
			if i < maxRegions/2 || !strings.Contains(e.Text, "the most") {
				t.Errorf("region %d: got %+v, want at least %d regions", i, e, maxRegions/2)
			}
			break
		}
	}
	p.session.plans.mu.Lock()
	defer p.session.plans.mu.Unlock()
	if used := len(p.session.plans.keys); used != 0 || p.session.plans.planned != 0 {
		t.Errorf("%d keys and %d entries are left of plans that were dropped", used, p.session.plans.planned)
	}
}

// What Python has no use for goes once what is under way has ended, and does no harm twice.
func TestMemoryThatPythonLeavesGoesWithItsLastUser(t *testing.T) {
	all := pair(t, nil)
	var regions, plans [2]uint32
	both(all, func(p *python, rank int) { regions[rank], plans[rank] = p.plan(10) })
	p, other := all[0], all[1]
	fill(p.slot(regions[0], 0), 1)
	fill(other.slot(regions[1], 0), 3)
	number := p.exchange(flagAnswer, plans[0], 0, 1, 1)
	p.mustAsk("state", nil, nil) // the exchange has begun
	counts := func() string {
		m, l := &p.session.memory, &p.session.plans
		m.mu.Lock()
		defer m.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Sprint(len(m.regions), m.leaving, m.taken > 0, len(l.plans), l.planned)
	}
	for range 2 {
		p.mustAsk("free", map[string]any{"region": regions[0], "later": true}, nil)
		p.mustAsk("drop_plan", map[string]any{"plan": plans[0], "later": true}, nil)
	}
	if e := p.ask("extend", map[string]any{"plan": plans[0], "entries": []any{}}, nil); e == nil || !strings.Contains(e.Text, "no plan") {
		t.Errorf("extend of a plan that Python has left: got %+v, want no plan", e)
	}
	if got := counts(); got != "1 1 true 0 1" {
		t.Errorf("with an exchange under way: got %s, want the region on its way and an entry", got)
	}
	other.wait(other.exchange(flagAnswer, plans[1], 0, 1, 1))
	if a := p.wait(number); a.state != stateDone || p.slot(regions[0], 1)[0] != 2 {
		t.Errorf("got %+v and the value %v, want 2", a, p.slot(regions[0], 1)[0])
	}
	p.mustAsk("state", nil, nil)
	if got := counts(); got != "1 0 false 0 0" {
		t.Errorf("after the exchange: got %s, want nothing but region 0", got)
	}
	var made struct{ Plan uint32 }
	region := p.memory(10)
	entries := []map[string]any{{"key": "key0", "region": region, "grad": 0, "out": 0}}
	p.mustAsk("plan", map[string]any{"entries": entries}, &made)
	p.mustAsk("drop_plan", map[string]any{"plan": made.Plan, "later": true}, nil)
	p.mustAsk("free", map[string]any{"region": region, "later": true}, nil)
	if got := counts(); got != "1 0 false 0 0" {
		t.Errorf("with nothing under way: got %s, want nothing but region 0", got)
	}
}

// The number of regions is bounded, those on their way included.
func TestRegionsAreBounded(t *testing.T) {
	m := &memory{most: 1 << 20, regions: map[uint32]*region{}, leaving: 2, last: maxRegions}
	for i := range uint32(maxRegions - 3) {
		m.regions[i] = &region{}
	}
	if _, _, err := m.add([]int{5}); err != nil {
		t.Errorf("the last region: %v", err)
	}
	if _, _, err := m.add([]int{5}); !errors.Is(err, errUsage) {
		t.Errorf("one more: got error %v, want one of class Usage", err)
	}
}

// The bound of all regions holds also where whole pages are more than was asked for.
func TestMemoryIsBounded(t *testing.T) {
	m := &memory{most: 1<<20 + 4}
	number, _, err := m.add([]int{int(m.most / 4)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.add([]int{5}); !errors.Is(err, errUsage) {
		t.Errorf("more than the bound: got error %v, want one of class Usage", err)
	}
	if err := m.free(number, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.add([]int{5}); err != nil {
		t.Errorf("after the memory was freed: %v", err)
	}
}

// A packet that is none of the protocol's ends the session, and Python is told why.
func TestPacketsOfAnotherProtocolEndTheSession(t *testing.T) {
	exchange := exchangePacketOf(exchangePacket{number: 1})
	later := exchangePacketOf(exchangePacket{number: 2})
	flags := exchangePacketOf(exchangePacket{number: 1, flags: 4})
	rest := append([]byte(nil), exchange...)
	rest[40] = 1
	for name, packet := range map[string][]byte{
		"kind": []byte("Zxyz"), "no JSON": []byte("J{"), "no object": []byte("J[1]"), "empty JSON": []byte("J"),
		"short exchange": exchange[:47], "long exchange": append(exchange[:48:48], 0), "one byte": []byte("X"),
		"number": later, "flags": flags, "rest": rest, "long": make([]byte, maxPacket+1),
	} {
		p := newPython(t, nil)
		p.write(packet)
		if e := p.note("failed")["error"].(map[string]any); e["class"] != "Protocol" {
			t.Errorf("%s: got the error %v, want class Protocol", name, e)
		}
		if err := p.end(); !errors.Is(err, errProtocol) {
			t.Errorf("%s: the session ended with %v, want errProtocol", name, err)
		}
	}
}

// The end of the socket without close is the end of a worker that failed.
func TestTheEndOfTheSocketEndsTheSession(t *testing.T) {
	p := newPython(t, nil).join("dist_sync")
	p.socket.Close()
	if err := p.end(); !errors.Is(err, errGone) {
		t.Errorf("the session ended with %v, want errGone", err)
	}
}

// A request that waits is ended by cancel; its answer says so, and later requests go on.
func TestRequestsAreCancelled(t *testing.T) {
	all := pair(t, nil)
	p := all[0]
	waiting := p.send("barrier", nil)
	p.mustAsk("cancel", map[string]any{"request": waiting}, nil)
	if e := p.await(waiting, nil); e == nil || e.Class != "Cancelled" {
		t.Errorf("got %+v, want class Cancelled", e)
	}
	p.mustAsk("cancel", map[string]any{"request": 12345}, nil)
	p.mustAsk("state", nil, nil)
}

// At most 64 requests wait at a time; the urgent ones come through all the same.
func TestRequestsAreBounded(t *testing.T) {
	all := pair(t, nil)
	p := all[0]
	key := func(i int) map[string]any {
		return map[string]any{"keys": []map[string]any{{"key": fmt.Sprint("key", i), "form": "average", "region": p.memory(4), "slot": 0, "size": 4}}}
	}
	push := func(i int) map[string]any {
		return map[string]any{"keys": []map[string]any{{"key": fmt.Sprint("key", i), "region": i + 1, "grad": 0, "out": 0}}}
	}
	var waiting []uint64
	for i := range maxRequests {
		p.mustAsk("init", key(i), nil)
	}
	for i := range maxRequests {
		waiting = append(waiting, p.send("pushpull", push(i)))
	}
	if e := p.ask("state", nil, nil); e == nil || e.Class != "Full" {
		t.Errorf("request %d: got %+v, want class Full", maxRequests+1, e)
	}
	p.requested = waiting[0] - 1
	if e := p.ask("cancel", map[string]any{"request": 0}, nil); e == nil || !strings.Contains(e.Text, "is under way") {
		t.Errorf("a number used twice: got %+v", e)
	}
	p.requested = waiting[len(waiting)-1] + 1
	for _, id := range waiting {
		p.mustAsk("cancel", map[string]any{"request": id}, nil)
	}
	for _, id := range waiting {
		if e := p.await(id, nil); e == nil || e.Class != "Cancelled" {
			t.Errorf("got %+v, want class Cancelled", e)
		}
	}
	p.mustAsk("state", nil, nil)
}

// A Python that sends without reading is cut off before it takes much memory.
func TestUnreadAnswersAreBounded(t *testing.T) {
	for name, packet := range map[string]func(n int) []byte{
		"requests": func(n int) []byte { return []byte(fmt.Sprintf(`J{"id": %d, "op": "cancel"}`, n+1)) },
		"unknown":  func(n int) []byte { return []byte(fmt.Sprintf(`J{"id": %d, "op": "nothing"}`, n+1)) },
		"exchanges": func(n int) []byte {
			return exchangePacketOf(exchangePacket{flags: flagAnswer, plan: 7, number: uint64(n), count: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPython(t, nil).join("local")
			for n := 1; p.session.ctx.Err() == nil; n++ {
				if n > 100_000 {
					t.Fatal("100,000 packets were taken")
				}
				if _, err := p.socket.Write(packet(n)); err != nil {
					break
				}
			}
			if err := p.end(); !errors.Is(err, errProtocol) {
				t.Errorf("the session ended with %v, want errProtocol", err)
			}
		})
	}
}

// The text of the lowest rank comes to all; one that is longer than a slot is an error that says how
// long it is.
func TestBroadcastsComeIntoSlots(t *testing.T) {
	all := pair(t, nil)
	both(all, func(p *python, rank int) {
		region := p.memory(8+rank, 2)
		text := []string{"from worker 0", "from worker 1"}[rank]
		copy(bytesOf(p.slot(region, 0)), text)
		var got struct{ Bytes int }
		p.mustAsk("broadcast", map[string]any{"region": region, "slot": 0, "bytes": len(text)}, &got)
		if s := string(bytesOf(p.slot(region, 0))[:got.Bytes]); s != "from worker 0" {
			t.Errorf("worker %d: got %q", rank, s)
		}
		slot := rank // the longer text comes to the shorter slot
		e := p.ask("broadcast", map[string]any{"region": region, "slot": slot, "bytes": []int{32, 8}[rank]}, nil)
		if rank == 1 && (e == nil || e.Class != "Size" || !strings.Contains(e.Text, "has 32 bytes")) || rank == 0 && e != nil {
			t.Errorf("worker %d: got %+v", rank, e)
		}
	})
}

// Abort tells the other workers what Python said.
func TestAbortTellsTheOthers(t *testing.T) {
	all := pair(t, nil)
	waiting := all[1].send("barrier", nil)
	all[0].mustAsk("abort", map[string]any{"class": "ValueError", "text": "no such column", "last": "train.py:12"}, nil)
	if err := all[0].end(); err != nil {
		t.Errorf("the session ended with %v, want nil", err)
	}
	e := all[1].await(waiting, nil)
	if e == nil || e.Class != "Unavailable" || !strings.Contains(e.Text, "ValueError: no such column (train.py:12)") {
		t.Errorf("got %+v, want class Unavailable and what the other worker said", e)
	}
}

// A program that makes and frees memory over and over never finds that there is none, although the
// collector may not run meanwhile.
func TestFreedMemoryIsThereAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	p := newPython(t, nil).join("local")
	for range 1100 {
		p.mustAsk("free", map[string]any{"region": p.memory(4)}, nil)
	}
}
