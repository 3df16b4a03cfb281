package data

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// A TokenFormat is how a file of tokens is written. OpenTokens reads all of them.
type TokenFormat uint8

const (
	// FlatTokens are numbers of 16 bits and nothing else, as nanoGPT's .bin files.
	FlatTokens TokenFormat = iota
	// WideTokens are numbers of 32 bits and nothing else, which OpenTokens reads with Width 4.
	WideTokens
	// GPT2Tokens have llm.c's header, and numbers of 16 bits.
	GPT2Tokens
	// Llama3Tokens have llm.c's header for Llama 3, and numbers of 32 bits.
	Llama3Tokens
)

// tokenForms are the formats: the bytes of a token, and the header's first two numbers, or 0.
var tokenForms = [...]struct {
	width          int
	magic, version uint32
}{
	FlatTokens:   {2, 0, 0},
	WideTokens:   {4, 0, 0},
	GPT2Tokens:   {2, magicGPT2, 1},
	Llama3Tokens: {4, magicLlama3, 7},
}

// A TokenWriter writes a file of tokens. It is for one goroutine.
type TokenWriter struct {
	path   string
	format TokenFormat
	file   *os.File
	to     *bufio.Writer
	n      int64
	buf    []byte
	err    error
}

// CreateTokens begins a file of tokens. It has the name path with ".partial" behind until Close, so
// that no file under path is ever a part of one.
func CreateTokens(path string, format TokenFormat) (*TokenWriter, error) {
	if int(format) >= len(tokenForms) {
		return nil, fmt.Errorf("data: token writer: got format %d, want FlatTokens, WideTokens, GPT2Tokens or Llama3Tokens", format)
	}
	file, err := os.Create(path + ".partial")
	if err != nil {
		return nil, fmt.Errorf("data: token writer: %w", err)
	}
	w := &TokenWriter{path: path, format: format, file: file, to: bufio.NewWriterSize(file, 1<<18)}
	if tokenForms[format].magic != 0 {
		// The header comes last, with the number of tokens.
		_, w.err = w.to.Write(make([]byte, tokenHeader))
	}
	return w, nil
}

// WriteTokens appends tokens. One that the format has no room for is an error, and then the file is
// not finished.
func (w *TokenWriter) WriteTokens(tokens []int32) error {
	if w.err != nil {
		return w.err
	}
	width := tokenForms[w.format].width
	w.buf = w.buf[:0]
	for i, token := range tokens {
		if token < 0 || width == 2 && token > math.MaxUint16 {
			w.err = fmt.Errorf("data: token writer: %s: token %d: got %d, want 0 to %d in a format of %d bytes: choose one with more", w.path, w.n+int64(i), token, int64(1)<<(8*width)-1, width)
			return w.err
		}
		if width == 2 {
			w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(token))
		} else {
			w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(token))
		}
	}
	w.n += int64(len(tokens))
	if _, err := w.to.Write(w.buf); err != nil {
		w.err = fmt.Errorf("data: token writer: %w", err)
	}
	return w.err
}

// NumTokens is the number of tokens written so far.
func (w *TokenWriter) NumTokens() int64 { return w.n }

// Close finishes the file, or removes it if anything failed before.
func (w *TokenWriter) Close() error {
	if w.err == nil {
		w.err = w.finish()
	}
	err := errors.Join(w.err, w.file.Close())
	if err == nil {
		err = os.Rename(w.path+".partial", w.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(w.path+".partial"))
	}
	w.err = errors.New("data: token writer: " + w.path + " is closed")
	return nil
}

// finish writes what waits, and the header.
func (w *TokenWriter) finish() error {
	if err := w.to.Flush(); err != nil {
		return fmt.Errorf("data: token writer: %w", err)
	}
	if form := tokenForms[w.format]; form.magic != 0 {
		if w.n > math.MaxInt32 {
			return fmt.Errorf("data: token writer: %s: got %d tokens, want at most %d in a file of llm.c: write several", w.path, w.n, math.MaxInt32)
		}
		head := binary.LittleEndian.AppendUint32(nil, form.magic)
		head = binary.LittleEndian.AppendUint32(head, form.version)
		head = binary.LittleEndian.AppendUint32(head, uint32(w.n))
		if _, err := w.file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("data: token writer: %w", err)
		}
		if _, err := w.file.Write(head); err != nil {
			return fmt.Errorf("data: token writer: %w", err)
		}
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("data: token writer: %w", err)
	}
	return nil
}
