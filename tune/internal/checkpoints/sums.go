package checkpoints

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SumsFile is in the folder of each checkpoint, and no part of what was saved. It has a line for each file, by name,
//
//	CRC-32C BYTES "NAME"
//
// and at the end one with the CRC-32C of those lines.
const SumsFile = ".tune-checksums"

// ErrDamaged is a checkpoint whose files are not those that were kept.
var ErrDamaged = errors.New("the checkpoint is damaged")

// writeSums writes the checksums of what is in a folder.
func writeSums(dir string, sync bool) error {
	text, err := sumsOf(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, SumsFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("checksums of a checkpoint: %w", err)
	}
	_, err = f.Write(text)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && sync {
		err = vfs.OS{}.SyncDir(dir)
	}
	return err
}

// sumsOf returns what the checksums of a folder's files are now. WalkDir goes by names, so that equal
// files have equal texts.
func sumsOf(dir string) ([]byte, error) {
	var text bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == SumsFile {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		h := crc32.New(castagnoli)
		n, err := io.Copy(h, f)
		fmt.Fprintf(&text, "%08x %d %q\n", h.Sum32(), n, filepath.ToSlash(name))
		return errors.Join(err, f.Close())
	})
	fmt.Fprintf(&text, "%08x\n", crc32.Checksum(text.Bytes(), castagnoli))
	return text.Bytes(), err
}

// Verify compares the files of a checkpoint with their checksums; known tells that it has
// some, as those of older versions have not.
func Verify(dir string) (known bool, err error) {
	noted, err := os.ReadFile(filepath.Join(dir, SumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return false, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	got, err := sumsOf(dir)
	if err != nil || bytes.Equal(noted, got) {
		return true, err
	}
	have, want := strings.Split(string(got), "\n"), strings.Split(string(noted), "\n")
	for i := range min(len(have), len(want)) {
		if have[i] != want[i] {
			return true, fmt.Errorf("%w: got %.200q, want %.200q as %s says", ErrDamaged, have[i], want[i], SumsFile)
		}
	}
	return true, fmt.Errorf("%w: got %d files, want %d", ErrDamaged, len(have)-2, len(want)-2)
}
