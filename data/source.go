package data

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// A source reads a file, through gzip where its first two bytes say so, and
// counts the bytes that came out, so that an error can say where it was.
type source struct {
	// name is for errors: the path, and the member of an archive.
	name string

	r    io.Reader
	file *os.File
	at   int64
}

func openSource(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	s := &source{name: path, file: f}
	b := bufio.NewReaderSize(f, 1<<16)
	s.r = b
	magic, err := b.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, s.damaged(err)
	}
	if len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			f.Close()
			return nil, s.damaged(err)
		}
		s.r = z
	}
	return s, nil
}

func (s *source) Close() error { return s.file.Close() }

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.at += int64(n)
	return n, err
}

// full reads exactly len(p) bytes.
func (s *source) full(p []byte, what string) error {
	want := s.at + int64(len(p))
	if _, err := io.ReadFull(s, p); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("data: %s: %s: ends at byte %d, want %d bytes; the file is cut short: delete it and fetch it again",
				s.name, what, s.at, want)
		}
		return s.damaged(err)
	}
	return nil
}

// end returns an error unless nothing is left.
func (s *source) end() error {
	var one [1]byte
	for {
		n, err := s.Read(one[:])
		if n > 0 {
			return fmt.Errorf("data: %s: more bytes follow byte %d, where it should end; it is not the right file: fetch it again", s.name, s.at-1)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.damaged(err)
		}
	}
}

func (s *source) damaged(err error) error {
	return fmt.Errorf("data: %s: at byte %d: %w; the file is damaged: delete it and fetch it again", s.name, s.at, err)
}
