package resume

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
)

// A frame is what the ends send over a connection: a message (package framing) of
//
//	offset  size  field
//	     0     1  kind
//	     1     8  read   how many bytes of the other end the sender has read, little-endian; the
//	                     end of the other's stream counts as one byte
//	     9     4  age    milliseconds since a frame of the other end came to the sender
//	    13        bytes  1 to maxData in a frame of data, none in others
//
// Positions count bytes, not frames: a frame of which a connection brought only a part need not be
// sent again from its beginning.
//
// The first frame of a connection is idle, and nothing follows it until the other end's first frame
// has come, whose read says where to go on. What came over an earlier connection and was not read
// then is dropped by its receiver, and sent again. In later frames read says what need not be kept
// any longer.
//
// Where only one direction of a connection works, an end still hears the other, which no longer
// hears it. By the age the holder of the lease knows when the other end last heard it.
type frame struct {
	kind kind
	read uint64
	age  time.Duration
	n    int
}

type kind byte

const (
	// kindIdle has no body: it says that this end is alive.
	kindIdle kind = 'i'

	kindData kind = 'd'

	// kindEnd says that no data comes behind what has come.
	kindEnd kind = 'e'
)

const (
	ownHead  = 13
	headSize = framing.HeadSize + ownHead

	// maxFrame lets a frame hold whole TLS records.
	maxFrame = 64 << 10

	maxData = maxFrame - headSize
)

// appendHead writes all but the bytes.
func (f frame) appendHead(b []byte) []byte {
	b = append(framing.AppendHead(b, ownHead+f.n), byte(f.kind))
	b = binary.LittleEndian.AppendUint64(b, f.read)
	return binary.LittleEndian.AppendUint32(b, uint32(min(f.age.Milliseconds(), 1<<32-1)))
}

// parseHead reads what appendHead wrote.
func parseHead(b []byte) (frame, error) {
	length, err := framing.Length(b, ownHead+maxData)
	if err != nil {
		return frame{}, err
	}
	b = b[framing.HeadSize:]
	f := frame{
		kind: kind(b[0]), read: binary.LittleEndian.Uint64(b[1:]),
		age: time.Duration(binary.LittleEndian.Uint32(b[9:])) * time.Millisecond,
		n:   length - ownHead,
	}
	switch {
	case f.n < 0:
		return frame{}, fmt.Errorf("frame of %d bytes, want at least %d", length, ownHead)
	case f.kind != kindIdle && f.kind != kindData && f.kind != kindEnd:
		return frame{}, fmt.Errorf("frame of kind %q", byte(f.kind))
	case (f.kind == kindData) != (f.n > 0):
		return frame{}, fmt.Errorf("frame of kind %q with %d bytes, want 1 to %d in %q and none elsewhere", byte(f.kind), f.n, maxData, byte(kindData))
	}
	return f, nil
}
