// Package framing cuts a connection into the messages of the control protocols.
//
// Agents, launchers, searches, their trials and the commands that ask them exchange frames. A frame is the length of a message, and the message:
//
//	offset  size  field
//	     0     4  n        length of the message, little-endian
//	     4     n  message
//
// What a message holds is the business of its protocol: JSON, or a kind with numbers and bytes. So are the version, the deadlines, and the length of the
// longest message, which every call states. A longer one is a *LengthError before any of it is read. Memory is taken as the bytes come, so a
// peer does not get more by a large length than by what it sends.
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

// HeadSize is the size of what stands before a message.
const HeadSize = 4

// chunk is how much memory is taken at first for a message of any length.
const chunk = 64 << 10

// A LengthError says that a message is too long.
type LengthError struct{ Length, Most int }

func (e *LengthError) Error() string {
	return fmt.Sprintf("got a message of %d bytes, want at most %d", e.Length, e.Most)
}

// Line reports whether the length that was read is the beginning of a JSON object, as a peer sends it that speaks in lines of JSON.
func (e *LengthError) Line() bool { return e.Length&0xffff == '{'|'"'<<8 }

func check(length, most int) error {
	if length > most {
		return &LengthError{length, most}
	}
	return nil
}

// AppendHead appends what stands before a message of so many bytes.
func AppendHead(b []byte, length int) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(length))
}

// Length is the length of the message behind a head.
func Length(head []byte, most int) (int, error) {
	n := binary.LittleEndian.Uint32(head)
	if int64(n) > int64(most) {
		return 0, &LengthError{int(n), most}
	}
	return int(n), nil
}

// Write writes a frame in one piece.
func Write(w io.Writer, message []byte, most int) error {
	if err := check(len(message), most); err != nil {
		return err
	}
	_, err := w.Write(append(AppendHead(make([]byte, 0, HeadSize+len(message)), len(message)), message...))
	return err
}

// Read reads a frame and returns its message, in the memory of buf where that suffices.
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
		buf = slices.Grow(buf, min(n-at, max(at, chunk)))
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

// WriteJSON writes v as JSON in a frame. Nothing is written of what is too long.
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
