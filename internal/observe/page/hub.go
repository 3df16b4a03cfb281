package page

import (
	"context"
	"sync"
	"time"
)

const (
	// every is the time between two calls of Poll.
	every = time.Second

	// pollTimeout bounds one call of Poll.
	pollTimeout = 3 * time.Second

	// queued is how many messages a slow reader may lag behind.
	queued = 4
)

// A hub polls a feed while someone watches, and hands what comes to all who do.
type hub struct {
	feed Feed

	// came is told that a watcher has come.
	came chan struct{}

	wg sync.WaitGroup

	// mu guards the rest. It is not held while the feed polls.
	mu sync.Mutex

	watchers map[*watcher]struct{}
	running  bool
	closed   bool
	ctx      context.Context
	cancel   context.CancelFunc
}

// A watcher is one stream. Its channel is closed when nothing more comes: the end has come, or it
// was too slow.
type watcher struct {
	messages chan Message

	// begun says that the watcher has the whole page, so that changes are enough.
	begun bool
}

func newHub(feed Feed) *hub {
	h := &hub{feed: feed, came: make(chan struct{}, 1), watchers: make(map[*watcher]struct{})}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// watch adds a watcher, whose first message has the whole, or is of a job that is gone.
func (h *hub) watch() *watcher {
	w := &watcher{messages: make(chan Message, queued)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(w.messages)
		return w
	}
	h.watchers[w] = struct{}{}
	if !h.running {
		h.running = true
		h.wg.Go(h.run)
		return w
	}
	select {
	case h.came <- struct{}{}:
	// The watcher has a note already that it has not read.
	default:
	}
	return w
}

func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(w)
}

// drop forgets a watcher. mu is held.
func (h *hub) drop(w *watcher) {
	if _, ok := h.watchers[w]; ok {
		delete(h.watchers, w)
		close(w.messages)
	}
}

// run polls until nobody watches any more.
func (h *hub) run() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for h.poll() {
		for due := false; !due; {
			select {
			case <-tick.C:
				due = true
			case <-h.came:
				h.greet()
			case <-h.ctx.Done():
				return
			}
		}
	}
}

// poll is one round. It reports whether someone watches still.
func (h *hub) poll() bool {
	ctx, cancel := context.WithTimeout(h.ctx, pollTimeout)
	defer cancel()
	m := h.feed.Poll(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if w.begun || m.Whole {
			w.begun = true
			h.send(w, m)
		}
	}
	h.begin()
	if len(h.watchers) == 0 {
		h.running = false
	}
	return h.running
}

// last polls once more, out of turn, if someone watches, and lets nobody else in; watchers have
// their last message then.
func (h *hub) last(ctx context.Context) {
	h.mu.Lock()
	h.closed = true
	running := h.running
	h.mu.Unlock()
	if !running {
		return
	}
	h.cancel()
	h.wg.Wait()
	h.ctx = ctx
	h.poll()
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		h.drop(w)
	}
}

// greet gives those who have just come what is known: the last Poll is at most so old as every.
func (h *hub) greet() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin()
}

// begin sends the whole to those who have nothing yet. mu is held.
func (h *hub) begin() {
	var whole []Message
	for w := range h.watchers {
		if w.begun {
			continue
		}
		if whole == nil {
			whole = h.feed.Whole()
		}
		w.begun = true
		for _, m := range whole {
			h.send(w, m)
		}
	}
}

// send hands a message to a watcher, which is dropped if it has not taken the ones before. mu is
// held.
func (h *hub) send(w *watcher, m Message) {
	if _, ok := h.watchers[w]; !ok {
		return
	}
	select {
	case w.messages <- m:
	default:
		h.drop(w)
		return
	}
	if m.Last {
		h.drop(w)
	}
}

// close ends all streams.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	for w := range h.watchers {
		h.drop(w)
	}
	h.mu.Unlock()
	h.cancel()
	h.wg.Wait()
}
