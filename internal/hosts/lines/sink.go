package lines

import (
	"io"
	"time"
)

// hurryTime is how long after Hurry one line may take to be written.
const hurryTime = 200 * time.Millisecond

// A sink is where lines go: one of the two streams of the launcher.
type sink struct {
	w io.Writer

	// stuck is closed when the write that was given up has ended; nil: none was given up.
	stuck chan struct{}
}

// write writes b, which is not used again by anybody. It waits for as long as that takes, but after
// Hurry no longer than hurryTime: then b, and what comes while it is still being written, is lost.
// The caller holds m.mu.
func (m *Merger) write(s *sink, b []byte) {
	if s.stuck != nil {
		select {
		case <-s.stuck:
			s.stuck = nil
		default:
			return
		}
	}
	done := make(chan struct{})
	go func() { s.w.Write(b); close(done) }()
	select {
	case <-done:
		return
	case <-m.hurry:
	}
	t := time.NewTimer(hurryTime)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		s.stuck = done
	}
}

// Hurry lets no reader of the output hold anybody up from now on. It may be called at any time,
// also more than once.
func (m *Merger) Hurry() { m.once.Do(func() { close(m.hurry) }) }
