// Package framing cuts a connection into the messages of the control protocols.
//
// Agents, launchers, searches, their trials and the commands that ask them exchange frames. A frame
// is the length of a message, and the message:
//
//	offset  size  field
//	     0     4  n        length of the message, little-endian
//	     4     n  message
//
// Each protocol says what its messages hold: JSON, or a kind with numbers and bytes. It has a
// version and deadlines of its own, too. Every call states the longest message that it takes; a
// longer one is a *LengthError before any of it is read. Memory is taken as the bytes come: a peer
// that announces a long message and sends little of it costs little memory.
//
// The end of a connection is io.EOF between two frames and io.ErrUnexpectedEOF within one.
//
//	err := framing.WriteJSON(conn, question{Version: 2}, maxQuestion)
//	err = framing.ReadJSON(conn, &answer, maxAnswer)
package framing

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// HeadSize is the size of a frame's head, which is the length of the message.
const HeadSize = 4

// firstMemory is the most memory that is taken for a message of which nothing has come yet.
const firstMemory = 64 << 10

// A LengthError says that a message is longer than the call takes.
type LengthError struct{ Length, Most int }

func (e *LengthError) Error() string {
	return fmt.Sprintf("got a message of %d bytes, want at most %d", e.Length, e.Most)
}

// Line reports whether the bytes of the length are the beginning of a JSON object. Then the peer is
// of a version that had lines of JSON in place of frames.
func (e *LengthError) Line() bool { return e.Length&0xffff == '{'|'"'<<8 }

func check(length, most int) error {
	if length > most {
		return &LengthError{length, most}
	}
	return nil
}

// AppendHead appends the head of a frame whose message has so many bytes.
func AppendHead(b []byte, length int) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(length))
}

// Length returns the length of the message whose frame begins with the head.
func Length(head []byte, most int) (int, error) {
	n := binary.LittleEndian.Uint32(head)
	if int64(n) > int64(most) {
		return 0, &LengthError{int(n), most}
	}
	return int(n), nil
}

// Write writes a message as a frame, by one call of w.Write.
func Write(w io.Writer, message []byte, most int) error {
	if err := check(len(message), most); err != nil {
		return err
	}
	_, err := w.Write(append(AppendHead(make([]byte, 0, HeadSize+len(message)), len(message)), message...))
	return err
}

// Read reads a frame and returns its message, in the memory of buf if that is large enough.
func Read(r io.Reader, buf []byte, most int) ([]byte, error) {
	buf = slices.Grow(buf[:0], HeadSize)
	if _, err := io.ReadFull(r, buf[:HeadSize]); err != nil {
		return nil, err
	}
	n, err := Length(buf[:HeadSize], most)
	if err != nil {
		return nil, err
	}
	for len(buf) < n {
		at := len(buf)
		buf = slices.Grow(buf, min(n-at, max(at, firstMemory)))
		buf = buf[:min(n, cap(buf))]
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}

// WriteJSON writes v as JSON in a frame. If that is too long, nothing is written.
func WriteJSON(w io.Writer, v any, most int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Write(w, b, most)
}

// ReadJSON reads JSON in a frame into v.
func ReadJSON(r io.Reader, v any, most int) error {
	b, err := Read(r, nil, most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("got a message that is not the JSON that was expected: %w", err)
	}
	return nil
}
