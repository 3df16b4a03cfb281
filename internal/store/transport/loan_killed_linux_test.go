package transport

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// lendingEnv makes the test's binary a process that lends its memory to the server at the address
// in it, until it is killed.
const lendingEnv = "PARAGON_TEST_LEND"

const lentByKilled = 300_000

func lendUntilKilled(addr string) {
	c := NewClient(addr, Config{Network: Auto, Connections: 1})
	payload, dst := sharableAlone(lentByKilled, 1), sharableAlone(lentByKilled, 2)
	for {
		if _, err := c.Call(context.Background(), &wire.Push{}, &wire.Value{}, dst, payload); err != nil {
			os.Exit(1)
		}
	}
}

// sharableAlone is sharable, in pages of its own.
func sharableAlone(n int, seed uint64) []byte {
	const page = 64 << 10 // or smaller
	return sharable((n+page-1)/page*page, seed)
}

// keepsLoans is a LoanHandler that keeps the first loan until its connection ends.
type keepsLoans struct {
	borrowed chan bool
	ended    chan *Loan
	checked  chan bool
}

func (h *keepsLoans) Buffer(_ *Request, n int) ([]byte, error) { return make([]byte, n), nil }
func (h *keepsLoans) Drop(*Request)                            {}
func (h *keepsLoans) Borrow(r *Request, l *Loan) ([]byte, error) {
	r.Value = l
	return nil, nil
}

func (h *keepsLoans) Serve(ctx context.Context, r *Request) (Response, error) {
	if l, ok := r.Value.(*Loan); ok {
		h.borrowed <- true
		<-ctx.Done()
		h.ended <- l
		<-h.checked
	}
	return Response{Message: &wire.Value{}}, nil
}

// What a process has lent is whole after it was killed, and can be claimed until the handler
// returns.
func TestALoanOfAKilledProcessIsWhole(t *testing.T) {
	ln := listenAuto(t)
	h := &keepsLoans{borrowed: make(chan bool), ended: make(chan *Loan), checked: make(chan bool)}
	s := NewServer(ln, h, Config{Network: Auto, Logger: slog.New(slog.DiscardHandler)})
	go s.Serve()
	defer s.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), lendingEnv+"="+ln.Addr().String()), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-h.borrowed
	cmd.Process.Kill()
	cmd.Wait()
	l := <-h.ended
	defer close(h.checked)
	if !l.Claim() {
		t.Fatal("the memory of a killed process cannot be claimed")
	}
	defer l.Release()
	if !bytes.Equal(l.Payload(), sharableAlone(lentByKilled, 1)) {
		t.Error("the memory of a killed process changed")
	}
	for i := range l.Out() { // nobody waits for it, and it is still mapped
		l.Out()[i] = 1
	}
}
