package agent

import "sync"

// queued bounds the frames that wait for a slow connection. It suffices to start the most processes
// of a job (5000) and to signal each twice.
const queued = 16 << 10

// A frameQueue holds frames that wait to be sent.
type frameQueue struct {
	// filled has something while there are frames. Its size is 1.
	filled chan struct{}

	// mu guards the fields below.
	mu sync.Mutex

	frames [][]byte
}

// add adds a frame, if there are not too many.
func (q *frameQueue) add(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.frames) >= queued {
		return false
	}
	q.frames = append(q.frames, frame)
	q.fill()
	return true
}

// take takes the first frame; the caller has received from filled.
func (q *frameQueue) take() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	frame := q.frames[0]
	q.frames[0] = nil
	if q.frames = q.frames[1:]; len(q.frames) > 0 {
		q.fill()
	} else {
		q.frames = nil
	}
	return frame
}

// fill says that there are frames, unless that has been said.
func (q *frameQueue) fill() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}
