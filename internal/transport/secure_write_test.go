package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/identity"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// A write that ran into its deadline goes on where it was, as often as it takes; every byte comes once.
func TestAWriteUnderTLSGoesOnAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := identity.NewAuthority("job")
		if err != nil {
			t.Fatal(err)
		}
		worker, err := a.Issue(identity.Worker, "worker 0")
		if err != nil {
			t.Fatal(err)
		}
		server, err := a.Issue(identity.Server, "server 0")
		if err != nil {
			t.Fatal(err)
		}
		n := faultnet.New(1)
		ln, err := n.Host("s").Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		x, err := n.Host("c").Dial(t.Context(), "s:1")
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		y, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer y.Close()
		accepted := make(chan net.Conn, 1)
		go func() {
			nc, _, err := secureToClient(y, server.Server(identity.Worker))
			if err != nil {
				t.Error(err)
			}
			accepted <- nc
		}()
		conn, err := secureToServer(x, worker.Client(identity.Server))
		if err != nil {
			t.Fatal(err)
		}
		other := <-accepted
		if t.Failed() {
			return
		}
		var want []byte
		var pieces net.Buffers
		for i, size := range []int{3, 700_000, 1, 16 << 10, 900_000, 70} {
			p := bytes.Repeat([]byte{byte(i + 1)}, size)
			p[size-1] = 0xff
			want = append(want, p...)
			pieces = append(pieces, p)
		}
		got := make([]byte, len(want))
		read := make(chan error, 1)
		go func() {
			for at := 0; at < len(got); { // slower than the writer's patience
				time.Sleep(30 * time.Millisecond)
				k, err := io.ReadFull(other, got[at:min(at+40_000, len(got))])
				if at += k; err != nil {
					read <- err
					return
				}
			}
			read <- nil
		}()
		w, deadlines := conn.(vectorWriter), 0
		for {
			conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			err := w.writeVector(&pieces)
			if err == nil {
				break
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			deadlines++
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if deadlines == 0 || len(pieces) > 0 || !bytes.Equal(got, want) {
			t.Errorf("%d deadlines, %d pieces left, same bytes: %t; want some, none, true", deadlines, len(pieces), bytes.Equal(got, want))
		}
	})
}
