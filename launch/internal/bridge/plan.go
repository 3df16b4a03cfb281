package bridge

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/paragon-train/paragon/kvstore"
)

const (
	// maxEntries is the most entries of a request for a plan.
	maxEntries = 4096
	// maxPlanned is the most entries of all plans of a session.
	maxPlanned = 1 << 20
	// maxPlans is the most plans of a session.
	maxPlans = 4096
)

// A plan is a list of entries that Python exchanges again and again.
type plan struct {
	// entries are for exchanges that bring new values, pushes for those that do not.
	entries, pushes []kvstore.Entry
	// parts and counts are of the same keys.
	parts  []planPart
	counts []*keyCount
	// users counts exchanges under way. plans.mu guards it.
	users int
	// dropped says that it goes with its last exchange.
	dropped bool
}

// A planPart is what the bridge knows of an entry besides.
type planPart struct {
	key    *plannedKey
	region *region
	number uint32
	// grad and out are the slots of the gradient and of the new value.
	grad, out int
}

// A plannedKey is a key that plans have.
type plannedKey struct {
	name string
	// plans counts the entries with this key.
	plans int
	// by is the exchange under way that has the key; 0: none has. plans.mu guards all fields.
	by uint64
}

// plans are the plans of a session, by number. Numbers are not used again.
type plans struct {
	mu      sync.Mutex
	plans   map[uint32]*plan
	keys    map[string]*plannedKey
	last    uint32
	planned int
}

// planEntry is an entry as it comes.
type planEntry struct {
	Key    string `json:"key"`
	Region uint32 `json:"region"`
	Grad   int    `json:"grad"`
	Out    int    `json:"out"`
}

// makePlan is the operation plan.
func makePlan(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Entries []planEntry `json:"entries"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	s.plans.mu.Lock()
	defer s.plans.mu.Unlock()
	p := &plan{}
	if err := s.plans.add(s, p, a.Entries); err != nil {
		return nil, err
	}
	number, err := s.plans.enter(p)
	if err != nil {
		s.plans.forget(s, p)
		return nil, err
	}
	return map[string]uint32{"plan": number}, nil
}

// extendPlan is the operation extend.
func extendPlan(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Plan    uint32      `json:"plan"`
		Entries []planEntry `json:"entries"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	s.plans.mu.Lock()
	defer s.plans.mu.Unlock()
	p := s.plans.plans[a.Plan]
	if p == nil {
		return nil, usage("bridge: extend: there is no plan %d", a.Plan)
	}
	return nil, s.plans.add(s, p, a.Entries)
}

// dropPlan is the operation drop_plan.
func dropPlan(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Plan uint32 `json:"plan"`
		// Later says that Python has no use for the plan, if it is still there: exchanges under
		// way keep it.
		Later bool `json:"later"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	s.plans.mu.Lock()
	defer s.plans.mu.Unlock()
	p := s.plans.plans[a.Plan]
	switch {
	case p == nil && a.Later:
		return nil, nil
	case p == nil:
		return nil, usage("bridge: drop_plan: there is no plan %d", a.Plan)
	case p.users > 0 && a.Later:
		delete(s.plans.plans, a.Plan)
		p.dropped = true
		return nil, nil
	case p.users > 0:
		return nil, usage("bridge: drop_plan: plan %d has exchanges under way, %d of them; wait for these", a.Plan, p.users)
	}
	delete(s.plans.plans, a.Plan)
	s.plans.forget(s, p)
	return nil, nil
}

// enter numbers a new plan. mu is locked.
func (l *plans) enter(p *plan) (uint32, error) {
	if len(l.plans) >= maxPlans {
		return 0, usage("bridge: plan: there are %d plans, which is the most; drop one", len(l.plans))
	}
	if l.plans == nil {
		l.plans = map[uint32]*plan{}
	}
	l.last++
	l.plans[l.last] = p
	return l.last, nil
}

// add adds entries to a plan, all or none. mu is locked, also while the plan is found: one that is
// dropped meanwhile would keep its entries, and their regions, for ever.
func (l *plans) add(s *session, p *plan, entries []planEntry) error {
	if len(entries) == 0 || len(entries) > maxEntries {
		return usage("bridge: plan: got %d entries, want 1 to %d; more come by extend", len(entries), maxEntries)
	}
	if l.planned+len(entries) > maxPlanned {
		return usage("bridge: plan: got %d entries with %d in other plans, want at most %d in all; drop plans that are not used", len(entries), l.planned, maxPlanned)
	}
	more := &plan{}
	for i := range entries {
		if err := more.append(s, &entries[i]); err != nil {
			l.forget(s, more)
			return err
		}
	}
	p.entries, p.pushes = append(p.entries, more.entries...), append(p.pushes, more.pushes...)
	p.parts, p.counts = append(p.parts, more.parts...), append(p.counts, more.counts...)
	return nil
}

// append adds an entry. plans.mu is locked.
func (p *plan) append(s *session, e *planEntry) error {
	if err := checkKey("plan", e.Key); err != nil {
		return err
	}
	count, err := s.turns.count(e.Key)
	if err != nil {
		return err
	}
	grad, r, err := s.memory.slot(e.Region, e.Grad)
	if err != nil {
		return err
	}
	out, again, err := s.memory.slot(e.Region, e.Out)
	if err != nil {
		s.memory.giveBack(r)
		return err
	}
	s.memory.giveBack(again)
	key := s.plans.keys[e.Key]
	if key == nil {
		key = &plannedKey{name: e.Key}
		if s.plans.keys == nil {
			s.plans.keys = map[string]*plannedKey{}
		}
		s.plans.keys[e.Key] = key
	}
	key.plans++
	s.plans.planned++
	grads := [][]float32{grad}
	p.entries = append(p.entries, kvstore.Entry{Key: e.Key, Grads: grads, Outs: [][]float32{out}})
	p.pushes = append(p.pushes, kvstore.Entry{Key: e.Key, Grads: grads})
	p.parts = append(p.parts, planPart{key: key, region: r, number: e.Region, grad: e.Grad, out: e.Out})
	p.counts = append(p.counts, count)
	return nil
}

// forget gives back what a plan that nobody uses has. mu is locked.
func (l *plans) forget(s *session, p *plan) {
	for i := range p.parts {
		part := &p.parts[i]
		s.memory.giveBack(part.region)
		l.planned--
		if part.key.plans--; part.key.plans == 0 {
			delete(l.keys, part.key.name)
		}
	}
	*p = plan{}
}

// claim gives an exchange its entries and their keys. An exchange that cannot be has no part of it.
func (l *plans) claim(x *exchange) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.plans[x.packet.plan]
	if p == nil {
		return usage("bridge: exchange %d: there is no plan %d", x.packet.number, x.packet.plan)
	}
	first, end := uint64(x.packet.first), uint64(x.packet.first)+uint64(x.packet.count)
	if end > uint64(len(p.parts)) {
		return usage("bridge: exchange %d: got entries %d to %d of plan %d, which has %d", x.packet.number, first, end, x.packet.plan, len(p.parts))
	}
	parts := p.parts[first:end]
	for i := range parts {
		if key := parts[i].key; key.by != 0 {
			l.release(parts[:i])
			return usage("bridge: exchange %d: key %q is in exchange %d, which has not ended; wait for it, or name the key once", x.packet.number, shorten(key.name, 256), key.by)
		}
		parts[i].key.by = x.packet.number
	}
	p.users++
	x.plan, x.parts, x.counts = p, parts, p.counts[first:end]
	x.entries = p.entries[first:end]
	if x.packet.flags&flagPushOnly != 0 {
		x.entries = p.pushes[first:end]
	}
	return nil
}

// unclaim ends what claim began. A plan that was dropped goes with its last exchange.
func (l *plans) unclaim(s *session, x *exchange) {
	if x.plan == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(x.parts)
	if x.plan.users--; x.plan.users == 0 && x.plan.dropped {
		l.forget(s, x.plan)
	}
	x.plan = nil
}

// release says that keys are in no exchange. mu is locked.
func (l *plans) release(parts []planPart) {
	for i := range parts {
		parts[i].key.by = 0
	}
}
