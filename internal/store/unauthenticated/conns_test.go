package unauthenticated

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

type fakeConn struct {
	net.Conn
	from string
}

type fakeAddr string

func (fakeAddr) Network() string  { return "tcp" }
func (a fakeAddr) String() string { return string(a) }

func (c *fakeConn) RemoteAddr() net.Addr { return fakeAddr(c.from + ":1") }

func TestConnectionsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Conns{Most: 4, Patience: time.Second}
		enter := func(from string) (c *fakeConn, out net.Conn) {
			c = &fakeConn{from: from}
			return c, s.Enter(c)
		}
		first, _ := enter("10.0.0.1")
		enter("10.0.0.1")
		if c, out := enter("10.0.0.1"); out != net.Conn(c) {
			t.Errorf("the third of one address within the patience: %v gives way, want itself", out)
		}
		time.Sleep(time.Second)
		if _, out := enter("10.0.0.1"); out != net.Conn(first) {
			t.Errorf("the third of one address after the patience: %v gives way, want the first", out)
		}
		enter("10.0.0.2")
		enter("10.0.0.3")
		_, out := enter("10.0.0.4")
		if out == nil || out.(*fakeConn).from != "10.0.0.1" {
			t.Errorf("the fifth: %v gives way, want one of the address with the most", out)
		}
		if _, out := enter("[2001:db8::1]"); out == nil {
			t.Error("the sixth: nobody gives way")
		}
		for _, x := range s.list[1:] {
			s.Leave(x.nc)
		}
		if _, out := enter("10.0.0.9"); out != nil {
			t.Errorf("with room: %v gives way", out)
		}
	})
}
