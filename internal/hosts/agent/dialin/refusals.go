package dialin

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// refusals tells the launcher's user which agents were refused and why: each once in a while,
// because agents and strangers try again.
type refusals struct {
	log *slog.Logger

	// mu guards the fields below.
	mu sync.Mutex

	told map[refusal]time.Time
}

type refusal struct {
	remote netip.Addr
	name   string
	code   string
}

const (
	// tellAgain is how long the same refusal is not told once more.
	tellAgain = 10 * time.Minute

	// maxRefusals is how many refusals are told within tellAgain.
	maxRefusals = 32
)

func (r *refusals) tell(what refusal, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for old, at := range r.told {
		if now.Sub(at) >= tellAgain {
			delete(r.told, old)
		}
	}
	if _, ok := r.told[what]; ok || len(r.told) >= maxRefusals {
		return
	}
	if r.told == nil {
		r.told = make(map[refusal]time.Time)
	}
	r.told[what] = now
	r.log.Warn("launch: " + text)
}
