package data_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/paragon-train/paragon/data"
)

// digits are images of 8×8 grey bytes, one behind the other in a file, with a byte in front of each
// that is its label.
type digits struct {
	file *os.File
	n    int
}

const record = 1 + 8*8

func (d digits) Len() int          { return d.n }
func (d digits) Shape() data.Shape { return data.Shape{Channels: 1, Height: 8, Width: 8} }

func (d digits) Read(i int, dst []uint8) (label int, err error) {
	var b [record]byte
	if _, err := d.file.ReadAt(b[:], int64(i)*record); err != nil {
		return 0, err
	}
	copy(dst, b[1:])
	return int(b[0]), nil
}

// A data set of one's own has three methods: how many examples there are, what shape they have, and
// example i. What divides, orders, reads ahead, augments and resumes needs no more.
func Example_dataset() {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("digits-%d.bin", os.Getpid()))
	content := slices.Concat([]byte{7}, make([]byte, 64), []byte{3}, make([]byte, 64))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		panic(err)
	}
	defer os.Remove(path)
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()

	loader, err := data.NewLoader(digits{file, 2}, slices.Values([]int{1, 0}), data.LoaderConfig{BatchSize: 2})
	if err != nil {
		panic(err)
	}
	defer loader.Close()
	batch, err := loader.Next(context.Background())
	fmt.Println(batch.Labels, len(batch.Images), err)
	// Output: [3 7] 128 <nil>
}
