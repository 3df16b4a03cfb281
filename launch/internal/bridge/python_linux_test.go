package bridge

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
)

// patience bounds what a test waits for.
const patience = 60 * time.Second

// A python plays the Python process of a session at the other end of its socket. One goroutine uses
// it.
type python struct {
	t      testing.TB
	socket *net.UnixConn
	// session is nil where it runs in another process; ended has why it did.
	session *session
	ended   chan error

	requested, exchanged uint64
	// answers and exchanges have what came and was not waited for yet, notes all notes.
	answers   map[uint64]json.RawMessage
	exchanges []exchangeAnswer
	notes     []map[string]any
	// inbox are the packets' descriptors, by the number of the region.
	regions map[uint32]*mapped
	words   []uint64
	joined  joinResult
}

// A mapped region is one that Python has mapped. over are the slots that have moved, by offset.
type mapped struct {
	regionResult
	lengths []int
	bytes   []byte
	over    map[uint64][]byte
}

type exchangeAnswer struct {
	state  byte
	number uint64
	error  *errorText
}

// socketPair returns the ends of a pair of Python and the bridge.
func socketPair(t testing.TB) (python *net.UnixConn, bridge int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.socket.Close() })
	return c.socket, pair[1]
}

// newPython begins a session in this process, which ends with the test.
func newPython(t testing.TB, change func(*session)) *python {
	t.Helper()
	socket, fd := socketPair(t)
	c, err := connect(fd)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(c, slog.New(slog.DiscardHandler), func(string) string { return "" })
	s.memory.most = 256 << 20
	if change != nil {
		change(s)
	}
	p := playPython(t, socket)
	p.session, p.ended = s, make(chan error, 1)
	if err := s.hello(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- s.serve() }()
	t.Cleanup(func() {
		socket.Close()
		p.end()
	})
	return p
}

func playPython(t testing.TB, socket *net.UnixConn) *python {
	return &python{t: t, socket: socket, answers: map[uint64]json.RawMessage{}, regions: map[uint32]*mapped{}}
}

// of makes a session a worker of a job.
func of(job *jobtest.Job, rank int) func(*session) {
	return func(s *session) {
		s.create = func(ctx context.Context, kind string, opts ...kvstore.Option) (kvstore.Store, error) {
			return joining.Join(ctx, job.WorkerConfig(rank), kind, opts...)
		}
	}
}

// end waits for the end of the session, and returns why it ended.
func (p *python) end() error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(patience):
		p.t.Fatal("the session does not end")
		return nil
	}
}

// join joins as the first request.
func (p *python) join(store string) *python {
	p.t.Helper()
	p.mustAsk("join", map[string]any{"protocol": protocol, "store": store, "timeout_ms": 60000}, &p.joined)
	return p
}

// read reads one packet.
func (p *python) read() error {
	b, oob := make([]byte, maxPacket+1), make([]byte, 256)
	if err := p.socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	n, on, _, _, err := p.socket.ReadMsgUnix(b, oob)
	if err != nil {
		return err
	}
	if n == 0 {
		return net.ErrClosed
	}
	fd := -1
	if on > 0 {
		messages, err := syscall.ParseSocketControlMessage(oob[:on])
		if err != nil {
			return err
		}
		fds, err := syscall.ParseUnixRights(&messages[0])
		if err != nil {
			return err
		}
		fd = fds[0]
		defer unix.Close(fd)
	}
	return p.take(b[:n], fd)
}

func (p *python) take(b []byte, fd int) error {
	switch b[0] {
	case kindJSON:
		var a struct {
			ID     uint64
			Result struct {
				regionResult
				Words *regionResult
			}
		}
		if err := json.Unmarshal(b[1:], &a); err != nil {
			return err
		}
		if fd >= 0 {
			if a.Result.Words != nil {
				a.Result.regionResult = *a.Result.Words
			}
			if err := p.adopt(a.Result.regionResult, fd); err != nil {
				return err
			}
		}
		p.answers[a.ID] = b[1:]
	case kindNote:
		var note map[string]any
		if err := json.Unmarshal(b[1:], &note); err != nil {
			return err
		}
		p.notes = append(p.notes, note)
		if note["note"] == "moved" {
			return p.moved(note, fd)
		}
	case kindAnswer:
		a := exchangeAnswer{state: b[1], number: binary.LittleEndian.Uint64(b[8:])}
		if len(b) > answerBytes {
			a.error = &errorText{}
			if err := json.Unmarshal(b[answerBytes:], a.error); err != nil {
				return err
			}
		}
		p.exchanges = append(p.exchanges, a)
	default:
		return fmt.Errorf("a packet of kind %q", b[0])
	}
	return nil
}

// adopt maps a region.
func (p *python) adopt(r regionResult, fd int) error {
	m, err := shm.Map(fd, true)
	if err != nil {
		return err
	}
	p.t.Cleanup(func() { m.Close() })
	if uint64(len(m.Bytes())) != r.Bytes {
		return fmt.Errorf("region %d has a file of %d bytes, want %d", r.Region, len(m.Bytes()), r.Bytes)
	}
	p.regions[r.Region] = &mapped{regionResult: r, bytes: m.Bytes(), over: map[uint64][]byte{}}
	if r.Region == 0 {
		p.words = unsafe.Slice((*uint64)(unsafe.Pointer(&m.Bytes()[r.Offsets[0]])), wordCount)
	}
	return nil
}

// moved maps the new memory of a slot.
func (p *python) moved(note map[string]any, fd int) error {
	r := p.regions[uint32(note["region"].(float64))]
	m, err := shm.Map(fd, true)
	if err != nil {
		return err
	}
	p.t.Cleanup(func() { m.Close() })
	if float64(len(m.Bytes())) != note["bytes"].(float64) {
		return fmt.Errorf("the slot that moved has a file of %d bytes, and the note says %v", len(m.Bytes()), note["bytes"])
	}
	r.over[uint64(note["offset"].(float64))] = m.Bytes()
	return nil
}

// slot is a slot as Python sees it.
func (p *python) slot(region uint32, i int) []float32 {
	r := p.regions[region]
	b := r.bytes[r.Offsets[i]:]
	if over := r.over[r.Offsets[i]]; over != nil {
		b = over
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), r.lengths[i])
}

// send makes a request, and returns its number.
func (p *python) send(op string, args map[string]any) uint64 {
	p.t.Helper()
	p.requested++
	all := map[string]any{"id": p.requested, "op": op}
	for name, value := range args {
		all[name] = value
	}
	packet, err := encode(headJSON, all)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(packet)
	return p.requested
}

func (p *python) write(packet []byte) {
	p.t.Helper()
	if _, err := p.socket.Write(packet); err != nil {
		p.t.Fatal(err)
	}
}

// await waits for the answer of a request.
func (p *python) await(id uint64, result any) *errorText {
	p.t.Helper()
	for p.answers[id] == nil {
		if err := p.read(); err != nil {
			p.t.Fatalf("request %d: %v", id, err)
		}
	}
	var a struct {
		Result json.RawMessage
		Error  *errorText
	}
	if err := json.Unmarshal(p.answers[id], &a); err != nil {
		p.t.Fatal(err)
	}
	delete(p.answers, id)
	if a.Error == nil && result != nil {
		if err := json.Unmarshal(a.Result, result); err != nil {
			p.t.Fatal(err)
		}
	}
	return a.Error
}

// ask makes a request and waits for its answer.
func (p *python) ask(op string, args map[string]any, result any) *errorText {
	p.t.Helper()
	return p.await(p.send(op, args), result)
}

// mustAsk is ask where no error is expected.
func (p *python) mustAsk(op string, args map[string]any, result any) {
	p.t.Helper()
	if err := p.ask(op, args, result); err != nil {
		p.t.Fatalf("%s: %+v", op, err)
	}
}

// memory makes a region.
func (p *python) memory(lengths ...int) uint32 {
	p.t.Helper()
	var r regionResult
	p.mustAsk("memory", map[string]any{"lengths": lengths}, &r)
	p.regions[r.Region].lengths = lengths
	return r.Region
}

// plan makes a region with a slot for the gradient and one for the value of each key, initialises
// the keys by zeros, and makes a plan of all.
func (p *python) plan(sizes ...int) (region, plan uint32) {
	p.t.Helper()
	region = p.memory(append(append([]int(nil), sizes...), sizes...)...)
	var keys, entries []map[string]any
	for i, n := range sizes {
		key := fmt.Sprint("key", i)
		keys = append(keys, map[string]any{"key": key, "form": "average", "region": region, "slot": i, "size": n})
		entries = append(entries, map[string]any{"key": key, "region": region, "grad": i, "out": len(sizes) + i})
	}
	p.mustAsk("init", map[string]any{"keys": keys}, nil)
	var made struct{ Plan uint32 }
	p.mustAsk("plan", map[string]any{"entries": entries}, &made)
	return region, made.Plan
}

// exchange begins an exchange, and returns its number.
func (p *python) exchange(flags byte, plan, first, count uint32, weight float32) uint64 {
	p.t.Helper()
	p.exchanged++
	p.write(exchangePacketOf(exchangePacket{flags: flags, plan: plan, number: p.exchanged, first: first, count: count, weight: weight}))
	return p.exchanged
}

// exchangePacketOf is what decodeExchange reads.
func exchangePacketOf(x exchangePacket) []byte {
	b := make([]byte, exchangeBytes)
	b[0], b[1] = kindExchange, x.flags
	binary.LittleEndian.PutUint32(b[4:], x.plan)
	binary.LittleEndian.PutUint64(b[8:], x.number)
	binary.LittleEndian.PutUint32(b[16:], x.first)
	binary.LittleEndian.PutUint32(b[20:], x.count)
	binary.LittleEndian.PutUint32(b[24:], math.Float32bits(x.weight))
	binary.LittleEndian.PutUint32(b[28:], x.examples)
	return b
}

// wait waits for the answer of an exchange.
func (p *python) wait(number uint64) exchangeAnswer {
	p.t.Helper()
	for {
		for i, a := range p.exchanges {
			if a.number == number {
				p.exchanges = p.exchanges[i+1:]
				return a
			}
		}
		if err := p.read(); err != nil {
			p.t.Fatalf("exchange %d: %v", number, err)
		}
	}
}

// word is the state in an exchange's completion word; 0: it has not ended.
func (p *python) word(number uint64) uint64 {
	w := atomic.LoadUint64(&p.words[number%wordCount])
	if w/4 != number {
		return 0
	}
	return w % 4
}

// note waits for a note of a kind.
func (p *python) note(kind string) map[string]any {
	p.t.Helper()
	for {
		for i, note := range p.notes {
			if note["note"] == kind {
				p.notes = append(p.notes[:i:i], p.notes[i+1:]...)
				return note
			}
		}
		if err := p.read(); err != nil {
			p.t.Fatalf("note %s: %v", kind, err)
		}
	}
}

// processVariable says that the test's binary is a process of a test, and which.
const processVariable = "PARAGON_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch os.Getenv(processVariable) {
	case "":
		os.Exit(m.Run())
	case "bridge":
		os.Exit(Run(os.Args[1:], slog.Default()))
	case "launch":
		// Python runs "launch role bridge".
		os.Exit(Run(os.Args[3:], slog.Default()))
	case "python":
		beKilled()
	case "child":
		// The socket that it inherits stays open until its standard input ends.
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}
