package datapack

// A Summary says what was packed.
type Summary struct {
	// Files are the files that were written, in order.
	Files []File
	// Images is how many were packed, Bad how many were left out since they cannot be read.
	Images, Bad int
}

// A File is a .rec file or a tar shard.
type File struct {
	Name   string
	Images int
	Bytes  int64
}
