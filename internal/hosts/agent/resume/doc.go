// Package resume makes a stream of bytes outlive the connections that carry it.
//
// A Stream is one end. Whoever has a new connection between the two ends attaches it to both, at
// first and each time the one before broke; how the two find each other again is the caller's
// business. What was written and not yet read by the other end is kept, and is sent again over the
// next connection. So bytes arrive once and in their order, whatever connections break, and
// whenever.
//
// Each end keeps at most Window bytes that the other has not read; Write waits then. Both ends send
// something at least every Lease/8. A connection on which nothing came for three times as long is
// closed. A Stream that has heard nothing from the other end for Lease is over: its calls fail with
// ErrLease. Bytes of both directions may be lost then.
//
//	s := resume.New(resume.Config{Lease: 4 * time.Second})
//	for conn := range connections { // dialled, authenticated, and known to belong to this stream
//		<-s.Attach(conn) // until it breaks
//	}
//
// After CloseWrite the other end reads io.EOF behind the last byte. Finish ends a Stream that has
// nothing more to read or write.
package resume
