package scheduler

import (
	"cmp"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// signals lets workers wait for a word of another one, and remembers the words that were sent.
//
// The worker of the lowest rank sends signals. When it is lost, waits for those that it has not
// sent are refused, and whoever waited tries again, with another worker as the sender.
type signals struct {
	waits waitList
	sent  nameLog
}

func newSignals() signals { return signals{sent: nameLog{kind: "signal"}} }

// send takes a Signal and answers those who wait for it. Sending it again changes nothing.
func (s *signals) send(out *output, request uint64, m *wire.Signal) {
	if _, sent := s.sent.happened(m.Name); !sent && s.sent.bytes+len(m.Value) > maxValues {
		out.refuse(request, wire.CodeFull, "signal %s: a value of %d bytes beside %d that are kept, want at most %d in all", wire.Shown(m.Name), len(m.Value), s.sent.bytes, maxValues)
		return
	}
	s.sent.add(out, m.Name, m.Value)
	for _, w := range s.waits.remove(func(w wait) bool { return w.name == m.Name }) {
		value, _ := s.sent.happened(m.Name)
		out.answer(w.request, &wire.Signalled{Value: value})
	}
	out.ack(request)
}

// await takes an Await. workers are those that count.
func (s *signals) await(out *output, request uint64, m *wire.Await, workers []*node) {
	if value, ok := s.sent.happened(m.Name); ok {
		out.answer(request, &wire.Signalled{Value: value})
		return
	}
	if len(workers) == 0 {
		out.refuse(request, wire.CodeUnavailable, "signal %s: there is no worker to send it in generation %d", wire.Shown(m.Name), out.job.generation)
		return
	}
	sender := slices.MinFunc(workers, func(a, b *node) int { return cmp.Compare(a.Rank, b.Rank) })
	if sender.Node == m.Node && sender.Rank > 0 {
		out.refuse(request, wire.CodeUnavailable, "signal %s: its sender is gone; %v waits for the signal, but must now send it itself", wire.Shown(m.Name), sender)
		return
	}
	w := newWait(out.now, request, m.Node, m.Name, m.WaitMillis)
	w.sender = sender.Node
	s.waits.add(w)
}

// senderLost refuses the waits for signals that a lost worker had to send.
func (s *signals) senderLost(out *output, n *node, text string) {
	for _, w := range s.waits.remove(func(w wait) bool { return w.sender == n.Node }) {
		out.refuse(w.request, wire.CodeUnavailable, "signal %s: its sender is gone: %s", wire.Shown(w.name), text)
	}
}

// pass refuses those who have waited too long.
func (s *signals) pass(out *output) {
	for _, w := range s.waits.late(out.now) {
		out.refuse(w.request, wire.CodeTimeout, "signal %s: waited %s, nobody has sent it", wire.Shown(w.name), w.waited(out.now))
	}
}

// end refuses all who wait: the job has ended.
func (s *signals) end(out *output) {
	s.waits.end(out, func(w wait) string { return "signal " + wire.Shown(w.name) })
}
