package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Fake is a GPU of Go code. What is given to a stream is done late: when somebody waits, and then
// in an order that is drawn, as far as streams and events leave one to draw. Memory begins with
// 0xAB, and no address outside of it can be used.
type Fake struct {
	mu  sync.Mutex
	rng *rand.Rand

	// blocks are by address.
	blocks []fakeBlock

	next drv.Ptr

	// limit is how many bytes there are; 0: there is no end.
	limit int64

	used    int64
	hosts   map[*byte]int
	streams map[drv.Stream]*fakeStream
	events  map[drv.Event]*fakeRecord
	graphs  map[uintptr][]func()
	capture *fakeCapture
	handles uintptr

	// Refuse is asked before each call; an error is what the call answers.
	Refuse func(call string) error
	// Trace lists what was called, if it is not nil.
	Trace *[]string
	// Hang, if not nil, is what waiting for an event waits for first.
	Hang chan struct{}
	// RefusePinning makes HostRegister fail.
	RefusePinning bool
	// NoSums takes away convolutions that add to what is there; SumsApart says that they are
	// slow.
	NoSums, SumsApart bool
	// HalfGradients makes convolutions give weights' gradients in the type of the images.
	HalfGradients bool

	tables map[any][]fakeTensor
}

type fakeBlock struct {
	at    drv.Ptr
	bytes []byte
}

type fakeStream struct {
	name  string
	queue []fakeTask
}

// A fakeTask is one thing to do, after after is done; then record is.
type fakeTask struct {
	do     func()
	after  *fakeRecord
	record *fakeRecord
}

// A fakeRecord is one recording of an event.
type fakeRecord struct{ done bool }

type fakeCapture struct {
	stream drv.Stream
	tasks  []func()
}

// NewFake opens a GPU that does things in an order drawn from seed.
func NewFake(seed uint64) (*Fake, *GPU) {
	f := &Fake{
		rng: rand.New(rand.NewPCG(seed, 7)), next: 1 << 32, hosts: make(map[*byte]int), streams: make(map[drv.Stream]*fakeStream),
		events: make(map[drv.Event]*fakeRecord), graphs: make(map[uintptr][]func()), tables: make(map[any][]fakeTensor),
	}
	g := &GPU{name: "cuda:0", context: f, kernels: fakeKernels{f}, vendor: fakeLibrary{f}, waiter: fakeWaiter{f}, close: func() error { return nil }}
	if err := g.start(); err != nil {
		panic(err)
	}
	for i, s := range []drv.Stream{g.compute, g.up, g.down} {
		f.streams[s].name = []string{"compute", "up", "down"}[i]
	}
	return f, g
}

// Left says what was not given back.
func (f *Fake) Left() error {
	if len(f.blocks)+len(f.hosts)+len(f.events)+len(f.graphs)+len(f.tables) > 0 {
		return fmt.Errorf("left: %d device blocks, %d host blocks, %d events, %d graphs, %d tables", len(f.blocks), len(f.hosts), len(f.events), len(f.graphs), len(f.tables))
	}
	return nil
}

func (f *Fake) call(format string, args ...any) error {
	name := fmt.Sprintf(format, args...)
	if f.Trace != nil {
		*f.Trace = append(*f.Trace, name)
	}
	if f.Refuse != nil {
		return f.Refuse(name)
	}
	return nil
}

func (f *Fake) handle() uintptr { f.handles++; return f.handles }

// memory is n bytes at p.
func (f *Fake) memory(p drv.Ptr, n int64) []byte {
	i, found := slices.BinarySearchFunc(f.blocks, p, func(b fakeBlock, p drv.Ptr) int { return cmp.Compare(b.at, p) })
	if !found {
		i--
	}
	if i < 0 || p+drv.Ptr(n) > f.blocks[i].at+drv.Ptr(len(f.blocks[i].bytes)) {
		panic(fmt.Sprintf("fake: no memory of %d bytes at %#x", n, uint64(p)))
	}
	at := p - f.blocks[i].at
	return f.blocks[i].bytes[at : at+drv.Ptr(n)]
}

// overwrite sets all bytes: a copy of many is quicker than a loop under the race detector.
func overwrite(m []byte, v byte) {
	if len(m) == 0 {
		return
	}
	m[0] = v
	for k := 1; k < len(m); k *= 2 {
		copy(m[k:], m[:k])
	}
}

// give puts work on a stream.
func (f *Fake) give(s drv.Stream, what string, do func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, ok := f.streams[s]
	if !ok {
		return fmt.Errorf("fake: %s on stream %d, which is none", what, s)
	}
	if err := f.call("%s: %s", q.name, what); err != nil {
		return err
	}
	if f.capture != nil {
		if f.capture.stream != s {
			return fmt.Errorf("fake: %s on stream %s while another captures", what, q.name)
		}
		f.capture.tasks = append(f.capture.tasks, do)
		return nil
	}
	q.queue = append(q.queue, fakeTask{do: do})
	return nil
}

// until does things until done says that it is enough, in an order that is drawn.
func (f *Fake) until(done func() bool) error {
	for !done() {
		var able []*fakeStream
		for _, k := range slices.Sorted(mapKeys(f.streams)) {
			if q := f.streams[k]; len(q.queue) > 0 && (q.queue[0].after == nil || q.queue[0].after.done) {
				able = append(able, q)
			}
		}
		if len(able) == 0 {
			return errors.New("fake: nothing can be done")
		}
		q := able[f.rng.IntN(len(able))]
		for n := 1 + f.rng.IntN(4); n > 0 && len(q.queue) > 0 && (q.queue[0].after == nil || q.queue[0].after.done); n-- {
			t := q.queue[0]
			q.queue = q.queue[1:]
			if t.do != nil {
				t.do()
			}
			if t.record != nil {
				t.record.done = true
			}
		}
	}
	return nil
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (f *Fake) Do(do func() error) error { return do() }
func (f *Fake) Info() drv.DeviceInfo     { return drv.DeviceInfo{Name: "fake", SMs: 2} }

func (f *Fake) Malloc(bytes int64) (drv.Ptr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("malloc %d", bytes); err != nil {
		return 0, err
	}
	if f.limit > 0 && f.used+bytes > f.limit {
		return 0, &drv.Error{Call: fmt.Sprintf("cuMemAlloc_v2 of %d bytes on cuda:0", bytes), Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "out of memory"}
	}
	f.used += bytes
	p := f.next
	f.next += drv.Ptr((bytes+255)/256*256 + 1<<20)
	m := make([]byte, bytes)
	overwrite(m, 0xAB)
	f.blocks = append(f.blocks, fakeBlock{p, m})
	return p, nil
}

func (f *Fake) Free(p drv.Ptr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, b := range f.blocks {
		if b.at == p {
			f.used -= int64(len(b.bytes))
			f.blocks = slices.Delete(f.blocks, i, i+1)
			return nil
		}
	}
	return fmt.Errorf("fake: free of %#x, which is no block", uint64(p))
}

func (f *Fake) MemInfo() (free, total int64, err error) { return f.limit - f.used, f.limit, nil }

func (f *Fake) HostAlloc(bytes int64) ([]byte, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("fake: host alloc of %d bytes", bytes)
	}
	m := make([]uint64, (bytes+7)/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), bytes)
	overwrite(b, 0xAB)
	f.hosts[&b[0]] = len(b)
	return b, nil
}

func (f *Fake) HostFree(m []byte) error {
	if _, ok := f.hosts[&m[0]]; !ok {
		return errors.New("fake: host free of other memory")
	}
	delete(f.hosts, &m[0])
	return nil
}

func (f *Fake) HostRegister(m []byte) error {
	if f.RefusePinning {
		return &drv.Error{Call: "cuMemHostRegister_v2", Code: 801, Name: "CUDA_ERROR_NOT_SUPPORTED", Text: "operation not supported"}
	}
	if _, there := f.hosts[&m[0]]; there {
		return &drv.Error{Call: "cuMemHostRegister_v2", Code: errorAlreadyRegistered, Name: "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", Text: "it is registered"}
	}
	f.hosts[&m[0]] = len(m)
	return nil
}

func (f *Fake) HostUnregister(m []byte) error { return f.HostFree(m) }

func (f *Fake) CopyToDevice(dst drv.Ptr, src unsafe.Pointer, n int64, s drv.Stream) error {
	return f.give(s, fmt.Sprintf("up %d bytes", n), func() { copy(f.memory(dst, n), unsafe.Slice((*byte)(src), n)) })
}

func (f *Fake) CopyToHost(dst unsafe.Pointer, src drv.Ptr, n int64, s drv.Stream) error {
	return f.give(s, fmt.Sprintf("down %d bytes", n), func() { copy(unsafe.Slice((*byte)(dst), n), f.memory(src, n)) })
}

func (f *Fake) CopyOnDevice(dst, src drv.Ptr, n int64, s drv.Stream) error {
	return f.give(s, fmt.Sprintf("copy %d bytes", n), func() { copy(f.memory(dst, n), f.memory(src, n)) })
}

func (f *Fake) Memset8(dst drv.Ptr, v byte, n int64, s drv.Stream) error {
	return f.give(s, fmt.Sprintf("set %d bytes", n), func() {
		overwrite(f.memory(dst, n), v)
	})
}

func (f *Fake) NewStream(int) (drv.Stream, error) {
	s := drv.Stream(f.handle())
	f.streams[s] = &fakeStream{}
	return s, nil
}

func (f *Fake) DestroyStream(s drv.Stream) error { delete(f.streams, s); return nil }

func (f *Fake) Synchronize(s drv.Stream) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("synchronize %s", f.streams[s].name); err != nil {
		return err
	}
	return f.until(func() bool { return len(f.streams[s].queue) == 0 })
}

func (f *Fake) WaitEvent(s drv.Stream, e drv.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("%s: wait", f.streams[s].name); err != nil {
		return err
	}
	f.streams[s].queue = append(f.streams[s].queue, fakeTask{after: f.events[e]})
	return nil
}

func (f *Fake) NewEvent(bool) (drv.Event, error) {
	e := drv.Event(f.handle())
	f.events[e] = &fakeRecord{done: true}
	return e, nil
}

func (f *Fake) DestroyEvent(e drv.Event) error { delete(f.events, e); return nil }

func (f *Fake) Record(e drv.Event, s drv.Stream) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("%s: record", f.streams[s].name); err != nil {
		return err
	}
	r := &fakeRecord{}
	f.events[e] = r
	f.streams[s].queue = append(f.streams[s].queue, fakeTask{record: r})
	return nil
}

func (f *Fake) SynchronizeEvent(e drv.Event) error {
	if f.Hang != nil {
		<-f.Hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("wait for event"); err != nil {
		return err
	}
	r := f.events[e]
	return f.until(func() bool { return r.done })
}

func (f *Fake) BeginCapture(s drv.Stream) error {
	if err := f.call("begin capture"); err != nil {
		return err
	}
	f.capture = &fakeCapture{stream: s}
	return nil
}

func (f *Fake) EndCapture(drv.Stream) (drv.Graph, error) {
	g := f.handle()
	f.graphs[g] = f.capture.tasks
	f.capture = nil
	return drv.Graph(g), f.call("end capture")
}

func (f *Fake) Instantiate(g drv.Graph) (drv.GraphExec, error) {
	if err := f.call("instantiate"); err != nil {
		return 0, err
	}
	e := f.handle()
	f.graphs[e] = f.graphs[uintptr(g)]
	return drv.GraphExec(e), nil
}

func (f *Fake) GraphLaunch(e drv.GraphExec, s drv.Stream) error {
	tasks := f.graphs[uintptr(e)]
	return f.give(s, fmt.Sprintf("graph of %d", len(tasks)), func() {
		for _, t := range tasks {
			t()
		}
	})
}

func (f *Fake) DestroyGraph(g drv.Graph) error         { delete(f.graphs, uintptr(g)); return nil }
func (f *Fake) DestroyGraphExec(e drv.GraphExec) error { delete(f.graphs, uintptr(e)); return nil }

type fakeWaiter struct{ f *Fake }

func (w fakeWaiter) Do(do func() error) error           { return do() }
func (w fakeWaiter) SynchronizeEvent(e drv.Event) error { return w.f.SynchronizeEvent(e) }
func (w fakeWaiter) Close() error                       { return nil }
