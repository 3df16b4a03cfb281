package page

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// writeTimeout is how long a browser may take for what was sent to it.
	writeTimeout = 10 * time.Second

	// maxStreams are those open at once. The next one gets 503 Service Unavailable.
	maxStreams = 32
)

// join takes a place for a stream and begins to watch, until leave is called. ok is false if no
// place is free; the browser has its answer then.
func (s *Server) join(w http.ResponseWriter) (_ *watcher, leave func(), ok bool) {
	select {
	case s.streams <- struct{}{}:
		w := s.hub.watch()
		return w, func() {
			s.hub.leave(w)
			<-s.streams
		}, true
	default:
		http.Error(w, fmt.Sprintf("%d pages are open already", maxStreams), http.StatusServiceUnavailable)
		return nil, nil, false
	}
}

// events is GET /api/events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	watcher, leave, ok := s.join(w)
	if !ok {
		return
	}
	defer leave()
	control := http.NewResponseController(w)

	// The deadline of the request would end the stream.
	if control.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for {
		select {
		case m, ok := <-watcher.messages:
			if !ok || !writeEvent(w, control, m) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func writeEvent(w http.ResponseWriter, control *http.ResponseController, m Message) bool {
	if control.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
		return false
	}
	for _, b := range [][]byte{[]byte("event: " + m.Event + "\ndata: "), m.Data, []byte("\n\n")} {
		if _, err := w.Write(b); err != nil {
			return false
		}
	}
	return control.Flush() == nil
}

// state is GET /api/state.
func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return
	}
	watcher, leave, ok := s.join(w)
	if !ok {
		return
	}
	defer leave()
	select {
	case m, ok := <-watcher.messages:
		if !ok || !m.Whole {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(m.Data)
	case <-r.Context().Done():
	}
}
