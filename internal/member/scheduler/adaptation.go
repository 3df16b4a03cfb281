package scheduler

import (
	"encoding/json"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// wishEvery is the least time between two events of wishes.
const wishEvery = 5 * time.Second

// adaptations has what rank 0 says of how it adapts batch and workers to the training, and of the
// number of workers that it wishes for.
type adaptations struct {
	set *Settings
	// newest is the newest one of rank 0; nil: none came. It is not in the journal: rank 0
	// sends it with each heartbeat. text is the newest one as it came.
	newest *control.Adaptation
	text   string
	// wished is the number of workers that rank 0 wished for when that was told last, at
	// wishedAt.
	wished   int
	wishedAt time.Time
	// pending says that this wish was not carried out yet.
	pending bool
	// saidMisread says that the warning was logged that a text cannot be read.
	saidMisread bool
	dirty       bool
}

// heard takes a heartbeat of rank 0. It returns the number of workers that rank 0 newly wishes for.
func (a *adaptations) heard(out *output, n *node, text string) wish {
	if text != "" && text != a.text && n.Counts() {
		a.take(out, n, text)
	}
	return a.tellWish(out)
}

// take takes a text that is new. One that cannot be read is warned of once: it comes with every
// heartbeat.
func (a *adaptations) take(out *output, n *node, text string) {
	x, err := control.DecodeAdaptation(text)
	a.text = text
	switch {
	case err == nil:
		a.newest = x
	case !a.saidMisread:
		a.saidMisread = true
		out.warn("%v sent an adaptation that cannot be decoded, and it is ignored: %v", n, err)
	}
}

// tellWish tells of a number of workers that rank 0 newly wishes for, where wishes are carried out.
func (a *adaptations) tellWish(out *output) wish {
	x := a.newest
	if x == nil || !a.set.Elastic.AdaptWorkers || x.WishedWorkers == 0 || x.WishedWorkers == a.wished || out.job.phase != wire.PhaseRunning || out.now.Sub(a.wishedAt) < wishEvery {
		return wish{}
	}
	a.wished, a.wishedAt, a.dirty = x.WishedWorkers, out.now, true
	out.event(control.Event{Action: control.Wish, Workers: a.wished, Reason: x.WishReason})
	return wish{a.wished, x.WishReason, out.now.Add(wishTime)}
}

// A keptWish is the record of adaptations.
type keptWish struct {
	Wished  int
	Pending bool `json:",omitempty"` // it was not carried out yet
}

// wait notes whether the wish that was told last is still to be carried out.
func (a *adaptations) wait(pending bool) {
	if a.pending != pending {
		a.pending, a.dirty = pending, true
	}
}

func (a *adaptations) keep(out *output) {
	if a.dirty {
		a.dirty = false
		out.put("wish", keptWish{a.wished, a.pending})
	}
}

// restore takes the record. The adaptation itself is not in it, and rank 0 sends it again; the wish
// is, so that the same one is not carried out twice. One that was not carried out is told again.
func (a *adaptations) restore(_ string, value []byte) error {
	var k keptWish
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	if !k.Pending {
		a.wished = k.Wished
	}
	return nil
}
