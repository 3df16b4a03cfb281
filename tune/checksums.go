package tune

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
	"github.com/paragon-train/paragon/tune/internal/state"
)

// sumsFile is in the folder of each checkpoint. It has a line for each file, by name,
//
//	CRC-32C BYTES "NAME"
//
// and at the end one with the CRC-32C of those lines.
const sumsFile = state.SumsFile

// errDamaged is a checkpoint whose files are not those that were kept.
var errDamaged = errors.New("the checkpoint is damaged")

// writeSums writes the checksums of what is in a folder.
func writeSums(dir string, sync bool) error {
	text, err := sumsOf(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, sumsFile)
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

// sumsOf returns what the checksums of a folder's files are now.
func sumsOf(dir string) ([]byte, error) {
	var text bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == sumsFile {
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

// verifyFolder compares the files of a checkpoint with their checksums; known tells that it has
// some, as those of older versions have not.
func verifyFolder(dir string) (known bool, err error) {
	noted, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return false, fmt.Errorf("%w: %w", errDamaged, err)
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
			return true, fmt.Errorf("%w: got %.200q, want %.200q as %s says", errDamaged, have[i], want[i], sumsFile)
		}
	}
	return true, fmt.Errorf("%w: got %d files, want %d", errDamaged, len(have)-2, len(want)-2)
}

// stillWhole verifies the checkpoint that an attempt is to go on from. One that is damaged is
// dropped, as one that is missing is when a study is opened. s.mu is held.
func (s *Study) stillWhole(k keptStep) (bool, error) {
	dir := s.checkpoints.path(k)
	known, err := verifyFolder(dir)
	switch {
	case err == nil && !known:
		s.logger.Warn("tune: a checkpoint of an older version has no checksums and is not verified", "trial", k.trial, "step", k.step)
		return true, nil
	case err == nil:
		return true, nil
	case !errors.Is(err, errDamaged): // the trial will say what is wrong
		s.logger.Warn("tune: a checkpoint could not be verified", "trial", k.trial, "step", k.step, "error", err)
		return true, nil
	}
	s.logger.Warn("tune: a checkpoint is damaged and is dropped; the trial resumes from an older one, or starts over", "trial", k.trial, "step", k.step, "folder", dir, "error", err)
	bytes := int64(0)
	for _, c := range s.l.allKept() {
		if c.keptStep == k {
			bytes = c.bytes
		}
	}
	return false, s.drop(k, bytes)
}
