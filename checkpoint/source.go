package checkpoint

import "io"

// A Source is a file open for reading.
type Source interface {
	io.ReaderAt
	io.Closer
	// Size is in bytes.
	Size() (int64, error)
}
