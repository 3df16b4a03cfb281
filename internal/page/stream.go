package page

import (
	"net/http"
	"time"
)

// writeTimeout is how long a browser may take for what was sent to it.
const writeTimeout = 10 * time.Second

// events is GET /api/events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	watcher := s.hub.watch()
	defer s.hub.leave(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for {
		select {
		case m, ok := <-watcher.messages:
			if !ok {
				return
			}
			if control.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
				return
			}
			for _, b := range [][]byte{[]byte("event: " + m.Event + "\ndata: "), m.Data, []byte("\n\n")} {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
			if control.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// state is GET /api/state.
func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	watcher := s.hub.watch()
	defer s.hub.leave(watcher)
	select {
	case m, ok := <-watcher.messages:
		if !ok || !m.Whole {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(m.Data)
	case <-r.Context().Done():
	}
}
