package job

import (
	"errors"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// Edits of host_worker are sent one after the other, and a refusal does not keep the next ones back.
// A host that is being taken away is not added.
func TestEditsAreSentInTheirOrder(t *testing.T) {
	o := newOutput()
	r := requests{out: o, asked: make(map[int]any)}
	m := newMachines(o, true)
	x, _, _ := connectedTo(&m, "d3", "10.0.0.3")
	x.notice = &hostNotice{}
	r.edit(hostworker.Change{Removed: []hosts.Host{at("d1")}, Added: []hosts.Host{at("d1"), at("d3")}}, &m)
	wantDid(t, o, "edited", "ask 1: remove", "warn: host_worker: d3 is not added: it is being taken away", "list d3: false")
	r.edited(r.answered(1).(editRequest), errors.New("no"))
	wantDid(t, o, "refused", "error: host_worker: remove d1: no", "ask 2: add")
	if !r.busy() {
		t.Error("it is not busy while an edit is under way")
	}
	r.cancel("the end")
	wantDid(t, o, "cancelled", "cancelAsk {2 the end}")
	r.edited(r.answered(2).(editRequest), errors.New("cancelled"))
	wantDid(t, o, "the answer to a cancelled edit")
	if r.answered(2) != nil || r.busy() {
		t.Error("an answer has a goal twice")
	}
}

// The watch and reports keep no job from its end.
func TestTheWatchIsNoWork(t *testing.T) {
	o := newOutput()
	r := requests{out: o, asked: make(map[int]any)}
	x := stateExchange{out: o, requests: &r}
	want := wantedState{revision: 7}
	if o.changed = true; x.due() {
		t.Error("a report is due before the exchange has begun")
	}
	x.begin(&want)
	x.begin(&want)
	wantDid(t, o, "begun twice", "ask 1: wanted")
	if !x.due() {
		t.Fatal("no first report is due")
	}
	first := &control.Observed{}
	x.report(first, &want, 0)
	wantDid(t, o, "first report", "ask 2: report")
	if o.changed = true; x.due() || r.busy() {
		t.Errorf("a second report is due %t, busy %t; want neither while the first is under way", x.due(), r.busy())
	}
	o.changed = false
	x.anew()
	wantDid(t, o, "another scheduler", "cancelAsk {2 there is a newer report}")
	if !x.due() {
		t.Error("no report is due to another scheduler")
	}
	second := &control.Observed{}
	x.report(second, &want, time.Second)
	wantDid(t, o, "last report", "ask 0: report")
	if first.Number != 1 || second.Number != 2 || second.Revision != 7 {
		t.Errorf("got %+v and %+v", first, second)
	}
}

// What is wanted is asked for at once after news, else after a pause: longer when the job is over.
func TestTheWatchPausesWithoutNews(t *testing.T) {
	o := newOutput()
	x := stateExchange{out: o, requests: &requests{out: o, asked: make(map[int]any)}}
	x.again(&wantedState{}, true, true)
	wantDid(t, o, "news", "ask 1: wanted")
	for over, pause := range map[bool]time.Duration{false: firstPause, true: overPause} {
		x.again(&wantedState{}, false, over)
		wantDid(t, o, "no news")
		if got := o.timers.next().Sub(o.now); got != pause {
			t.Errorf("over %t: the next look is in %s, want %s", over, got, pause)
		}
		o.timers.clear()
	}
}
