package netlab

import (
	"container/heap"
	"encoding/binary"
	"io"
	"sync"
	"time"
)

// A queue holds the packets for one host until they are due. Packets from one host keep their
// order.
type queue struct {
	// mu guards the rest.
	mu    sync.Mutex
	list  packets
	count uint64
	// last is when the last packet from a host is due.
	last   map[string]time.Time
	news   chan struct{}
	closed bool
}

type packet struct {
	due  time.Time
	turn uint64
	b    []byte
}

type packets []packet

func (p packets) Len() int { return len(p) }
func (p packets) Less(i, j int) bool {
	return p[i].due.Before(p[j].due) || p[i].due.Equal(p[j].due) && p[i].turn < p[j].turn
}
func (p packets) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *packets) Push(x any)   { *p = append(*p, x.(packet)) }
func (p *packets) Pop() any {
	x := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return x
}

// room bounds the packets of a queue; more are lost, as in any switch.
const room = 50_000

func newQueue() *queue { return &queue{last: map[string]time.Time{}, news: make(chan struct{}, 1)} }

func (q *queue) put(from string, b []byte, late time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.list) >= room {
		return
	}
	due := time.Now().Add(late)
	if last := q.last[from]; due.Before(last) {
		due = last
	}
	q.last[from] = due
	q.count++
	heap.Push(&q.list, packet{due, q.count, b})
	q.wake()
}

// wake tells the writer; the caller holds mu.
func (q *queue) wake() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

// write writes the packets that are due, until close.
func (q *queue) write(w io.Writer) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return
		}
		var next []byte
		wait := time.Hour
		if len(q.list) > 0 {
			if wait = time.Until(q.list[0].due); wait <= 0 {
				next = heap.Pop(&q.list).(packet).b
			}
		}
		q.mu.Unlock()
		if next != nil {
			// A device that takes no packet has lost it.
			_, _ = w.Write(next)
			continue
		}
		timer.Reset(wait)
		select {
		case <-q.news:
		case <-timer.C:
		}
	}
}

// reset is the answer to a packet of TCP by a host that knows of no such connection (RFC 9293,
// section 3.5.2); nil: there is none.
func reset(p []byte) []byte {
	header := int(p[0]&15) * 4
	if p[9] != 6 || len(p) < header+20 {
		return nil
	}
	tcp := p[header:]
	flags := tcp[13]

	// Flag 4 is a reset.
	if flags&4 != 0 {
		return nil
	}
	data := uint32(int(binary.BigEndian.Uint16(p[2:])) - header - int(tcp[12]>>4)*4)

	// FIN and SYN count as data.
	for _, bit := range []byte{1, 2} {
		if flags&bit != 0 {
			data++
		}
	}
	out := make([]byte, 40)
	out[0], out[8], out[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(out[2:], 40)
	copy(out[12:16], p[16:20])
	copy(out[16:20], p[12:16])
	t := out[20:]
	copy(t[0:2], tcp[2:4])
	copy(t[2:4], tcp[0:2])
	t[12], t[13] = 5<<4, 4
	if flags&16 != 0 {
		// The number that it acknowledges is where it expects us to go on.
		copy(t[4:8], tcp[8:12])
	} else {
		t[13] |= 16
	}
	binary.BigEndian.PutUint32(t[8:], binary.BigEndian.Uint32(tcp[4:])+data)
	binary.BigEndian.PutUint16(out[10:], checksum(0, out[:20]))
	pseudo := append(append([]byte(nil), out[12:20]...), 0, 6, 0, 20)
	binary.BigEndian.PutUint16(t[16:], checksum(sum(0, pseudo), t))
	return out
}

// checksum is that of the Internet protocols (RFC 1071).
func checksum(start uint32, b []byte) uint16 {
	s := sum(start, b)
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

func sum(s uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	return s
}
