package main

// A transfer is messages of one layer from hosts to hosts. One of both ends is one host, and the
// other stands for as many as are folded into it.
type transfer struct {
	layer int

	// bytes are those between two hosts.
	bytes float64

	senders, receivers int
}

// send moves messages and calls f when the last is there.
func (s *simulation) send(from, to *host, t transfer, f func()) {
	if from == to {
		s.sendWithin(from, t, f)
		return
	}
	// The port of the end that is folded takes the messages of one of its hosts, the other one's
	// takes all of them.
	upBytes, downBytes := t.bytes, t.bytes
	if t.senders == 1 {
		downBytes *= float64(t.receivers)
	} else {
		upBytes *= float64(t.senders)
	}
	from.up.take(t.layer, upBytes, func(begin, end float64) {
		if t.senders > 1 {
			// What counts is the last of them.
			begin = end - t.bytes/from.up.bytesPerSecond
		}
		s.at(begin+s.c.latency, func() {
			to.down.take(t.layer, downBytes, func(_, there float64) {
				s.at(max(there, end+s.c.latency), f)
			})
		})
	})
}

// sendWithin moves messages within a host: at once through memory, or through the one medium of
// oneHost.
func (s *simulation) sendWithin(h *host, t transfer, f func()) {
	if s.c.placement == oneHost && s.c.link > 0 {
		h.up.take(t.layer, t.bytes, func(_, end float64) { s.at(end, f) })
		return
	}
	f()
}
