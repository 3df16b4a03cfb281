package data

import (
	"archive/tar"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// The mean and the standard deviation of CIFAR-10's training images by
// channel, for pixels in [0, 1].
var (
	CIFAR10Mean = []float32{0.4914, 0.4822, 0.4465}
	CIFAR10Std  = []float32{0.2470, 0.2435, 0.2616}
)

// CIFAR10Classes are the names of the ten classes, by label.
var CIFAR10Classes = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// A cifarFile is one of the six inner files: 10,000 records of one label byte
// and 3,072 pixels.
type cifarFile struct {
	name    string
	records int
	sha1    string
	test    bool
}

var cifar10Files = []cifarFile{
	{"data_batch_1.bin", 10_000, "aadd24acce27caa71bf4b10992e9e7b2d74c2540", false},
	{"data_batch_2.bin", 10_000, "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795", false},
	{"data_batch_3.bin", 10_000, "1dd00a74ab1d17a6e7d73e185b69dbf31242f295", false},
	{"data_batch_4.bin", 10_000, "aab85764eb3584312d3c7f65fd2fd016e36a258e", false},
	{"data_batch_5.bin", 10_000, "26e2849e66a845b7f1e4614ae70f4889ae604628", false},
	{"test_batch.bin", 10_000, "67eb016db431130d61cd03c7ad570b013799c88c", true},
}

const cifarRecord = 1 + 3*32*32

var cifarShape = Shape{3, 32, 32}

// LoadCIFAR10 reads the binary version of CIFAR-10: 50,000 training and 10,000
// test images (Krizhevsky 2009). where is the archive
// (cifar-10-binary.tar.gz), a folder that has it, or a folder with the six
// .bin files in it or in its cifar-10-batches-bin. Each inner file is checked
// by its SHA-1, so the archive around them may be anyone's.
func LoadCIFAR10(where string) (train, test *ImageSet, err error) {
	return loadCIFAR(where, cifar10Files)
}

func loadCIFAR(where string, files []cifarFile) (train, test *ImageSet, err error) {
	info, err := os.Stat(where)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("data: cifar10: %w; fetch the binary version of CIFAR-10 there (FetchCIFAR10)", err)
		}
		return nil, nil, fmt.Errorf("data: cifar10: %w", err)
	}
	c := newCIFAR(files)
	if !info.IsDir() {
		return c.archive(where)
	}
	for _, dir := range []string{where, filepath.Join(where, "cifar-10-batches-bin")} {
		if _, err := os.Stat(filepath.Join(dir, files[0].name)); err == nil {
			return c.folder(dir)
		}
	}
	archive := filepath.Join(where, "cifar-10-binary.tar.gz")
	if _, err := os.Stat(archive); err == nil {
		return c.archive(archive)
	}
	return nil, nil, fmt.Errorf("data: cifar10: %s has neither cifar-10-binary.tar.gz nor %s; fetch the binary version of CIFAR-10 into it",
		where, files[0].name)
}

// cifar collects the inner files as they come.
type cifar struct {
	files       []cifarFile
	seen        []bool
	train, test *ImageSet
}

func newCIFAR(files []cifarFile) *cifar {
	set := func(test bool) *ImageSet {
		n := 0
		for _, f := range files {
			if f.test == test {
				n += f.records
			}
		}
		return &ImageSet{cifarShape, CIFAR10Classes, make([]uint8, n*cifarShape.Size()), make([]uint8, n)}
	}
	return &cifar{files: files, seen: make([]bool, len(files)), train: set(false), test: set(true)}
}

func (c *cifar) folder(dir string) (train, test *ImageSet, err error) {
	for k, f := range c.files {
		s, err := openSource(filepath.Join(dir, f.name))
		if err != nil {
			return nil, nil, err
		}
		err = c.read(k, s)
		s.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return c.train, c.test, nil
}

func (c *cifar) archive(file string) (train, test *ImageSet, err error) {
	s, err := openSource(file)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	members := tar.NewReader(s)
	for {
		h, err := members.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, s.damaged(err)
		}
		for k, f := range c.files {
			if h.Typeflag != tar.TypeReg || path.Base(h.Name) != f.name {
				continue
			}
			if err := c.read(k, &source{name: file + ": " + h.Name, r: members}); err != nil {
				return nil, nil, err
			}
		}
	}
	for k, f := range c.files {
		if !c.seen[k] {
			return nil, nil, fmt.Errorf("data: %s: has no %s; it is not the binary version of CIFAR-10: fetch that", file, f.name)
		}
	}
	return c.train, c.test, nil
}

// read takes inner file k into its place.
func (c *cifar) read(k int, s *source) error {
	f, set, first := c.files[k], c.train, 0
	if f.test {
		set = c.test
	}
	for _, g := range c.files[:k] {
		if g.test == f.test {
			first += g.records
		}
	}
	hash, record := sha1.New(), make([]byte, cifarRecord)
	for i := range f.records {
		if err := s.full(record, fmt.Sprintf("image %d of %d", i, f.records)); err != nil {
			return err
		}
		if int(record[0]) >= len(CIFAR10Classes) {
			return fmt.Errorf("data: %s: byte %d: got label %d, want 0 to 9; the file is damaged: delete it and fetch it again",
				s.name, i*cifarRecord, record[0])
		}
		hash.Write(record)
		set.labels[first+i] = record[0]
		copy(set.pixels[(first+i)*cifarShape.Size():], record[1:])
	}
	if err := s.end(); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.sha1 {
		return fmt.Errorf("data: %s: bytes 0 to %d: got SHA-1 %s, want %s; the file is damaged: delete it and fetch it again",
			s.name, s.at-1, got, f.sha1)
	}
	c.seen[k] = true
	return nil
}
