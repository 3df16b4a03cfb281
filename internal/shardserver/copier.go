package shardserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
)

// Copiers hand what shards become on to their backups: each shard has at most one at work, which ends when there is nothing to hand on.
// Their goroutines are kept for the next ones.
type copiers struct {
	ctx    context.Context
	cancel context.CancelFunc
	jobs   chan *job
	work   sync.WaitGroup
	fills  chan struct{} // a value for each fill under way

	mu    sync.Mutex    // guards the rest
	ended bool          // no new goroutines
	news  chan struct{} // closed when shards are placed anew
}

// A job is a shard that has something to hand on.
type job struct {
	s  *Server
	at place
	e  *entry

	head wire.Replicate // of the rounds it hands on
	ack  wire.Ack
}

// maxFills is how many backups are filled at one time by one server: no round of their shards closes meanwhile, those of the others do.
const maxFills = 4

func newCopiers(ctx context.Context) *copiers {
	k := &copiers{jobs: make(chan *job), fills: make(chan struct{}, maxFills), news: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(ctx)
	return k
}

func (k *copiers) close() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.cancel()
	k.work.Wait()
}

func (k *copiers) changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.news)
	k.news = make(chan struct{})
}

// notify says that a shard may have something to hand on. It waits for nothing.
func (k *copiers) notify(s *Server, at place, e *entry) {
	st := &e.standing
	st.mu.Lock()
	st.wakes++
	first := st.wakes == 1
	if st.job == nil {
		st.job = &job{s: s, at: at, e: e}
	}
	j := st.job
	st.mu.Unlock()
	if !first {
		return
	}
	select {
	case k.jobs <- j:
	default:
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.ended {
			k.work.Go(func() { k.run(j) })
		}
	}
}

// run hands on what j has, then what others have.
func (k *copiers) run(j *job) {
	for {
		for {
			st := &j.e.standing
			st.mu.Lock()
			seen := st.wakes
			st.mu.Unlock()
			j.serve(k)
			st.mu.Lock()
			over := st.wakes == seen || k.ctx.Err() != nil
			if over {
				st.wakes = 0
			}
			st.mu.Unlock()
			if over {
				break
			}
		}
		select {
		case j = <-k.jobs:
		case <-k.ctx.Done():
			return
		}
	}
}

// The pauses between two attempts: the first, and the longest.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 500 * time.Millisecond
	refusedPause = 5 * time.Second // after a backup said that it cannot
)

// pause waits, or until shards are placed anew. It reports whether the server goes on.
func (k *copiers) pause(news <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-news:
	case <-k.ctx.Done():
		return false
	}
	return k.ctx.Err() == nil
}

// serve hands on until there is nothing left, or the shard is not this server's any more.
func (j *job) serve(k *copiers) {
	e := j.e
	said := time.Now()
	for pause := firstPause; k.ctx.Err() == nil; pause = min(2*pause, longestPause) {
		k.mu.Lock()
		news := k.news
		k.mu.Unlock()
		x := e.at()
		if x.role != primary {
			return
		}
		if x.other == 0 {
			e.shard.Detach()
			j.s.mu.Lock()
			j.s.settled(j.at, e)
			j.s.mu.Unlock()
			return
		}
		did, err := j.step(k, x)
		switch {
		case err == nil && !did:
			return
		case err == nil:
			pause = firstPause / 2
			continue
		case k.ctx.Err() != nil:
			return
		}
		var refusal *transport.Refusal
		if errors.As(err, &refusal) && !passes(refusal.Code) {
			j.s.cfg.Logger.Warn("server: a backup refuses its shard, which goes on without", "shard", e.cfg.String(), "backup", x.rank, "err", err)
			if err := j.abandon(k, x); err == nil && k.pause(news, refusedPause) {
				continue
			}
		}
		if time.Since(said) > j.s.cfg.ExplainAfter {
			said = time.Now()
			j.s.cfg.Logger.Info("server: waiting for a backup", "shard", e.cfg.String(), "backup", x.rank, "err", err)
		}
		if !k.pause(news, pause) {
			return
		}
	}
}

// passes reports whether a refusal may be another answer soon.
func passes(code wire.Code) bool {
	switch code {
	case wire.CodeMoved, wire.CodeGap, wire.CodeBusy, wire.CodeTimeout, wire.CodeStaleGeneration, wire.CodeUnavailable, wire.CodeUnauthorised:
		return true
	}
	return false
}

// step does one thing: it fills the backup, or hands a round on. False: there was nothing to do.
func (j *job) step(k *copiers, x post) (did bool, err error) {
	e := j.e
	on, pending := e.shard.BackupStatus()
	if !on {
		return true, j.fill(k, x)
	}
	if !pending {
		return false, nil
	}
	r := e.shard.Lend()
	if r == nil {
		return false, nil
	}
	data := r.Bytes()
	if len(data) > wire.MaxPayload {
		e.shard.Commit(r, false)
		return true, j.fill(k, x)
	}
	m := &j.head
	*m = wire.Replicate{Copy: j.s.copyOf(e, x), Number: j.number(), Round: r.Round, Closed: r.Generation, Form: r.Form, Rows: uint64(r.Rows), Weight: r.Weight,
		Configured: r.Configured, Config: r.Config, Counts: m.Counts[:0]}
	for _, c := range r.Counts {
		m.Counts = append(m.Counts, wire.CountedPush{Node: c.Node, Seq: c.Seq, Weight: c.Weight, Counted: c.Counts, Norm: c.Norm, Verdict: c.Verdict})
	}
	err = j.ask(k, x, m, data)
	e.shard.Commit(r, err == nil)
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeGap {
		return true, j.fill(k, x)
	}
	return true, err
}

func (j *job) number() uint64 {
	j.e.standing.mu.Lock()
	defer j.e.standing.mu.Unlock()
	return j.e.standing.number
}

func (s *Server) copyOf(e *entry, x post) wire.Copy {
	return wire.Copy{Generation: s.view.Load().generation, Node: uint64(s.peers.ID()), Placement: x.placement, Key: e.cfg.Key, Shard: e.cfg.Index}
}

// ask sends one request to the backup.
func (j *job) ask(k *copiers, x post, m wire.Message, payload ...[]byte) error {
	peer, _, err := j.s.peers.Server(cluster.Rank(x.rank))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(k.ctx, askTimeout)
	defer cancel()
	_, err = peer.Call(ctx, m, &j.ack, nil, payload...)
	return err
}

// askTimeout is how long a backup may take for one request before it is asked again.
const askTimeout = 30 * time.Second

// fill gives the backup all that the shard is.
func (j *job) fill(k *copiers, x post) error {
	select {
	case k.fills <- struct{}{}:
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	defer func() { <-k.fills }()
	e := j.e
	st := &e.standing
	st.mu.Lock()
	if st.post != x {
		st.mu.Unlock()
		return nil // the next step sees to it
	}
	st.unsettle()
	st.refused = false
	st.number++
	number, term := st.number, st.term
	said := st.said
	st.mu.Unlock()

	err := j.send(k, x, number)
	if err == nil && !e.shard.EndFill() {
		err = fmt.Errorf("server: fill of %v: its state was replaced meanwhile", e.cfg)
	}
	if err != nil {
		if !said { // nobody counts on the backup yet: rounds go on
			e.shard.Detach()
		}
		return err
	}
	st.mu.Lock()
	if st.term != term { // the next step sees to it
		st.mu.Unlock()
		return nil
	}
	st.said = true
	st.mu.Unlock()
	if said {
		j.settle(term)
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ended {
		k.work.Go(func() { // beside the rounds that follow: the scheduler may be out of reach
			if err := j.tell(k, x, true); err == nil {
				j.settle(term)
			} else if k.ctx.Err() == nil {
				j.s.cfg.Logger.Warn("server: tell of a filled backup", "shard", e.cfg.String(), "backup", x.rank, "err", err)
			}
		})
	}
	return nil
}

// settle ends the waits for a backup, if it is still that of the term.
func (j *job) settle(term uint64) {
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	st := &j.e.standing
	st.mu.Lock()
	same := st.post.role == primary && st.term == term
	st.mu.Unlock()
	if same {
		j.s.settled(j.at, j.e)
	}
}

// tell tells the scheduler whether the backup has the whole state.
func (j *job) tell(k *copiers, x post, ok bool) error {
	err := j.s.peers.Filled(k.ctx, wire.Filled{Placement: x.placement, OK: ok,
		Shards: []wire.FilledShard{{Key: j.at.key, Shard: j.at.index, Backup: x.other}}})
	if errors.Is(err, cluster.ErrMoved) {
		return fmt.Errorf("%w: %w", err, &transport.Refusal{Code: wire.CodeMoved})
	}
	return err
}

// abandon makes the shard go on without a backup that refuses it, once the scheduler knows.
func (j *job) abandon(k *copiers, x post) error {
	st := &j.e.standing
	st.mu.Lock()
	said, term := st.said, st.term
	st.mu.Unlock()
	if said {
		if err := j.tell(k, x, false); err != nil {
			return err
		}
		st.mu.Lock()
		if st.term == term {
			st.said = false
		}
		st.mu.Unlock()
	}
	st.mu.Lock()
	st.refused = true
	st.mu.Unlock()
	j.e.shard.Detach()
	j.settle(term)
	return nil
}

// partValues is how many values a FillPart has at most.
const partValues = 1 << 20

// send brings a snapshot and its numbers to the backup.
func (j *job) send(k *copiers, x post, number uint64) error {
	e, s := j.e, j.s
	snap, err := e.shard.BeginFill()
	if err != nil {
		return err
	}
	cfg := &e.cfg
	m := &wire.Fill{Copy: s.copyOf(e, x), Number: number, Round: snap.Round, Closed: snap.Generation, Mode: snap.Mode, Rows: snap.Rows,
		Pushed: snap.Pushed, AnySeq: snap.AnySeq, Config: snap.Config, Slots: snap.Slots, Counted: snap.Counted}
	m.Init = wire.InitShard{Origin: wire.Origin{Key: cfg.Key, Shard: cfg.Index}, Form: cfg.Form, Rule: cfg.Rule, Offset: cfg.Offset, Length: cfg.Length,
		RowLen: cfg.RowLen, Size: cfg.Size, Shards: cfg.Shards, Zeros: true, Name: cfg.Name}
	if m.Init.Table, err = cfg.Table.Encode(); err != nil {
		return err
	}
	s.mu.RLock()
	if s.opt != nil {
		m.Base = encoded(s.base)
	}
	s.mu.RUnlock()
	arrays := 1 + len(snap.Slots)
	for _, w := range snap.Members {
		m.Members = append(m.Members, wire.FillMember{Node: w.Node, Counted: w.Counted, Base: w.Base, Examples: w.Examples, Known: w.Known, Newest: w.Newest, Weight: w.Weight,
			Caught: w.Caught})
		if w.Newest {
			arrays++
		}
	}
	m.Left = leftOf(snap.Left)
	if snap.Guard != nil {
		if m.Guard, err = snap.Guard.Encode(); err != nil {
			return err
		}
		m.Norms, m.Barren = snap.Norms, uint32(snap.Barren)
	}
	if err := j.ask(k, x, m); err != nil {
		return err
	}
	part := wire.FillPart{Number: number}
	post := func(payload []byte) error {
		part.Copy = s.copyOf(e, x)
		return j.ask(k, x, &part, payload)
	}
	gone := fmt.Errorf("server: fill of %v: its state was replaced meanwhile", cfg)
	if cfg.Form == wire.FormOpen {
		each := max(1, partValues/(2+int(cfg.RowLen)*arrays))
		for {
			part.Count = min(uint64(each), snap.Rows-part.From)
			part.Last = part.From+part.Count == snap.Rows
			st, ok := e.shard.ReadFillRows(part.From, part.Count)
			if !ok || uint64(st.Rows) != part.Count {
				st.Data.Release()
				return gone
			}
			var payload []byte
			if st.Rows > 0 {
				payload = st.Data.Bytes(shard.OpenPayloadSize(st.Rows, int(cfg.RowLen), len(st.Slots)))
			}
			err := post(payload)
			st.Data.Release()
			if err != nil || part.Last {
				return err
			}
			part.From += part.Count
		}
	}
	buffer := s.pool.Get(4 * int(min(cfg.Length, partValues)))
	defer buffer.Release()
	for array := range arrays {
		part.Array, part.From = uint32(array), 0
		for first := true; first || part.From < cfg.Length; first = false {
			part.Count = min(partValues, cfg.Length-part.From)
			part.Last = array == arrays-1 && part.From+part.Count == cfg.Length
			if !e.shard.ReadFill(array, int(part.From), buffer.Float32s(int(part.Count))) {
				return gone
			}
			if err := post(buffer.Bytes(4 * int(part.Count))); err != nil {
				return err
			}
			part.From += part.Count
		}
	}
	return nil
}
