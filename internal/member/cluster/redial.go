package cluster

import (
	"context"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
)

// Times after which a dial that got no answer is helped by another one: they double. Where the
// first packet of a dial is lost, the system sends it again after a second. The scheduler leaves a
// node whose connection broke hardly more than that to come back.
const (
	firstRedial = 250 * time.Millisecond
	// maxDials bounds the attempts at one time.
	maxDials = 4
)

// A redialingNetwork is a network whose Dial does not depend on one packet: while an attempt gets
// no answer it makes further ones, and takes the first that ends.
type redialingNetwork struct{ transport.Network }

// Dial implements transport.Network. When it returns, all other attempts have ended.
func (r redialingNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	type attempt struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	ended, open := make(chan attempt), 0
	dial := func() {
		open++
		go func() {
			nc, err := r.Network.Dial(ctx, addr)
			ended <- attempt{nc, err}
		}()
	}
	defer func() {
		cancel()
		for ; open > 0; open-- {
			if late := <-ended; late.conn != nil {
				late.conn.Close()
			}
		}
	}()
	dial()
	pause := firstRedial
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		select {
		case first := <-ended:
			open--
			return first.conn, first.err
		case <-again.C:
			dial()
			if pause *= 2; open < maxDials {
				again.Reset(pause)
			}
		}
	}
}
