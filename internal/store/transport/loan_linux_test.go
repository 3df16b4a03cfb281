package transport_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/shm"
	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A borrowing is a LoanHandler. With keep it uses loans, and hands them to serve; otherwise it has
// payloads copied.
type borrowing struct {
	handler
	keep   bool
	loans  atomic.Int32
	answer func(ctx context.Context, l *Loan) (Response, error)
}

func (h *borrowing) Borrow(r *Request, l *Loan) ([]byte, error) {
	h.loans.Add(1)
	if !h.keep {
		return make([]byte, len(l.Payload())), nil
	}
	r.Value = l
	return nil, nil
}

func (h *borrowing) Serve(ctx context.Context, r *Request) (Response, error) {
	if l, ok := r.Value.(*Loan); ok {
		return h.answer(ctx, l)
	}
	out := bytes.Clone(r.Payload)
	for i := range out {
		out[i]++
	}
	return Response{Message: &wire.Value{}, Payload: [][]byte{out}}, nil
}

// placed answers a loan with its bytes, each plus one, in the place that was lent for them.
func placed(_ context.Context, l *Loan) (Response, error) {
	if !l.Claim() {
		return Response{}, errors.New("the memory was taken back")
	}
	defer l.Release()
	for i, b := range l.Payload() {
		l.Out()[i] = b + 1
	}
	return Response{Message: &wire.Value{}, Placed: true}, nil
}

// memoryOf returns n bytes that can be lent, with the pattern of a number.
func memoryOf(seq uint64, n int) []byte {
	x := shm.Float32s(n / 4)
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), n)
	copy(b, pattern(seq, n))
	return b
}

// lending returns a client whose peer has the memory of the slices, so that they will be lent.
func lending(t *testing.T, h *borrowing, slices ...[]byte) *Client {
	t.Helper()
	ln, err := Auto.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, ln, h, Config{Network: Auto})
	c := client(t, ln.Addr().String(), Config{Network: Auto, Connections: 1})
	keep := h.keep
	h.keep = false
	for _, b := range slices {
		if _, _, ok := shm.Find(b); !ok {
			t.Skip("no memory to share")
		}
	}
	for end, had := time.Now().Add(10*time.Second), int32(0); h.loans.Load() < had+2; { // each slice once, then both directions
		if time.Now().After(end) {
			t.Fatal("memory was not lent within 10 s")
		}
		had = h.loans.Load()
		for _, b := range slices {
			if _, err := c.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Value{}, bytes.Clone(b), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.keep = keep
	h.loans.Store(0)
	return c
}

const lentBytes = 300_000

// A payload is used where it lies, and the answer is written where it belongs.
func TestALoanIsUsedInPlace(t *testing.T) {
	h := &borrowing{keep: true, answer: placed}
	payload, dst := memoryOf(1, lentBytes), memoryOf(2, lentBytes)
	c := lending(t, h, payload, dst)
	for i := range 5 {
		clear(dst)
		copy(payload, pattern(uint64(i), lentBytes))
		got, err := c.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Value{}, dst, payload)
		if err != nil || len(got) != lentBytes || &got[0] != &dst[0] {
			t.Fatalf("got %d bytes and error %v, want %d in the caller's memory", len(got), err, lentBytes)
		}
		for at := range dst {
			if dst[at] != payload[at]+1 {
				t.Fatalf("call %d: byte %d is %d, want %d", i, at, dst[at], payload[at]+1)
			}
		}
	}
	if got := h.loans.Load(); got != 5 {
		t.Errorf("5 calls: %d loans, want 5", got)
	}
}

// A Handler that wants a copy gets one, and its answer comes as any other.
func TestALoanIsCopiedWhereTheHandlerWantsACopy(t *testing.T) {
	h := &borrowing{}
	payload, dst := memoryOf(1, lentBytes), memoryOf(2, lentBytes)
	c := lending(t, h, payload, dst)
	if _, err := c.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Value{}, dst, payload); err != nil {
		t.Fatal(err)
	}
	for at := range dst {
		if dst[at] != payload[at]+1 {
			t.Fatalf("byte %d is %d, want %d", at, dst[at], payload[at]+1)
		}
	}
	if h.loans.Load() != 1 {
		t.Error("the payload was not lent")
	}
}

// Only memory whose pages hold nothing else is lent for a call.
func TestMemoryThatSharesItsPagesIsNotLentForACall(t *testing.T) {
	h := &borrowing{keep: true, answer: placed}
	all, dst := memoryOf(1, 3*lentBytes), memoryOf(2, lentBytes)
	c := lending(t, h, all, dst)
	for _, payload := range [][]byte{all[8 : 8+lentBytes], all[4096 : 4096+lentBytes]} {
		if _, err := c.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Value{}, dst, payload); err != nil {
			t.Fatal(err)
		}
		for at := range dst {
			if dst[at] != payload[at]+1 {
				t.Fatalf("byte %d is %d, want %d", at, dst[at], payload[at]+1)
			}
		}
	}
	if got := h.loans.Load(); got != 0 {
		t.Errorf("%d loans, want none", got)
	}
}

// holding returns a handler whose loans come out of a channel, and that answers when its context
// has ended and the test, which uses them, calls done.
func holding() (h *borrowing, loans chan *Loan, done func()) {
	loans = make(chan *Loan, 1)
	over := make(chan bool)
	return &borrowing{keep: true, answer: func(ctx context.Context, l *Loan) (Response, error) {
		loans <- l
		<-ctx.Done()
		<-over
		return Response{}, ctx.Err()
	}}, loans, func() { close(over) }
}

// A caller that gives up has its memory back at once, and the handler does not get it any more.
func TestALoanEndsWithItsCall(t *testing.T) {
	h, loans, finish := holding()
	defer finish()
	payload, dst := memoryOf(1, lentBytes), memoryOf(2, lentBytes)
	c := lending(t, h, payload, dst)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Call(ctx, &wire.Push{}, &wire.Value{}, dst, payload)
		done <- err
	}()
	l := <-loans
	if !l.Claim() {
		t.Fatal("a loan of an open call: Claim is false")
	}
	l.Release()
	if l.Over() {
		t.Error("a loan of an open call is over")
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want %v", err, context.Canceled)
	}
	if !l.Over() || l.Claim() {
		t.Error("the loan of a call that was given up can still be claimed")
	}
	// The same word serves the next loan, which the old one cannot claim.
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		_, err := c.Call(ctx, &wire.Push{}, &wire.Value{}, dst, payload)
		done <- err
	}()
	next := <-loans
	if l.Claim() || !next.Claim() {
		t.Error("two loans by one word are not told apart")
	}
	next.Release()
	cancel()
	<-done
}

// A call that is given up while its memory is being used returns when it is not used any more.
func TestACallWaitsForTheUseOfItsLoan(t *testing.T) {
	h, loans, finish := holding()
	defer finish()
	payload, dst := memoryOf(1, lentBytes), memoryOf(2, lentBytes)
	c := lending(t, h, payload, dst)
	ctx, cancel := context.WithCancel(t.Context())
	var released atomic.Bool
	done := make(chan bool)
	go func() {
		c.Call(ctx, &wire.Push{}, &wire.Value{}, dst, payload)
		done <- released.Load()
	}()
	l := <-loans
	l.Claim()
	cancel()
	for !l.Over() { // the caller asks for its memory
		time.Sleep(time.Microsecond)
	}
	released.Store(true)
	l.Release()
	if !<-done {
		t.Error("the call returned before the release")
	}
	if _, _, ok := shm.Find(dst); !ok {
		t.Error("the memory was detached though it was released in time")
	}
}

// A peer that does not release what it has claimed cannot hold a call up: it is left with pages
// that the caller does not have any more.
func TestAPeerThatKeepsALoanIsLeftWithTheOldPages(t *testing.T) {
	h, loans, finish := holding()
	defer finish()
	payload, dst := memoryOf(1, lentBytes), memoryOf(2, lentBytes)
	c := lending(t, h, payload, dst)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Call(ctx, &wire.Push{}, &wire.Value{}, dst, payload)
		done <- err
	}()
	l := <-loans
	l.Claim()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want %v", err, context.Canceled)
	}
	clear(payload)
	for i := range l.Out() {
		l.Out()[i] = 9
	}
	if !bytes.Equal(l.Payload(), pattern(1, lentBytes)) {
		t.Error("the payload changed while it was claimed")
	}
	if !bytes.Equal(dst, pattern(2, lentBytes)) {
		t.Error("memory of a caller changed after its call had returned")
	}
	l.Release()
	// What was detached is sent as ordinary memory is.
	h.loans.Store(0)
	copy(payload, pattern(3, lentBytes))
	got, err := c.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Value{}, dst, payload)
	if err != nil || len(got) != lentBytes || got[7] != payload[7]+1 || h.loans.Load() != 0 {
		t.Errorf("the next call: got %d bytes, error %v, %d loans, want %d bytes without a loan", len(got), err, h.loans.Load(), lentBytes)
	}
}

// A client that is closed takes back what it has lent; a server that is closed has the memory
// mapped until its handlers have returned.
func TestLoansOutliveTheirConnectionAsLongAsTheirHandlers(t *testing.T) {
	h := &borrowing{keep: true}
	begun, closed, result := make(chan bool), make(chan bool), make(chan bool, 1)
	h.answer = func(ctx context.Context, l *Loan) (Response, error) {
		begun <- true
		<-closed
		result <- l.Claim() || l.Payload()[5] == 200
		return Response{}, ctx.Err()
	}
	payload, dst := memoryOf(1, lentBytes), memoryOf(2, lentBytes)
	c := lending(t, h, payload, dst)
	done := make(chan error)
	go func() {
		_, err := c.Call(t.Context(), &wire.Push{}, &wire.Value{}, dst, payload)
		done <- err
	}()
	<-begun
	c.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("got error %v, want %v", err, ErrClosed)
	}
	close(closed)
	if <-result {
		t.Error("the handler could claim the memory of a client that was closed")
	}
}
