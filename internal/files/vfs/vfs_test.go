package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// text returns a write function that writes the text in several pieces.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		for i := 0; i < len(s); i += 3 {
			if _, err := io.WriteString(w, s[i:min(i+3, len(s))]); err != nil {
				return err
			}
		}
		return nil
	}
}

func contents(t *testing.T, fsys vfs.FS, path string) string {
	t.Helper()
	r, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n, err := r.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return string(b)
}

func TestBothFileSystemsWriteListRenameAndRemove(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"OS": vfs.OS{}, "Mem": &vfs.Mem{}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
			for _, s := range []string{"first", "second, longer", ""} {
				if err := vfs.WriteFile(fsys, one, text(s)); err != nil {
					t.Fatal(err)
				}
				if got := contents(t, fsys, one); got != s {
					t.Errorf("contents: got %q, want %q", got, s)
				}
			}
			if err := fsys.Rename(one, two); err != nil {
				t.Fatal(err)
			}
			if names, err := fsys.List(dir); err != nil || !slices.Equal(names, []string{"two"}) {
				t.Errorf("list: got %q (%v), want [two]", names, err)
			}
			if err := fsys.Remove(two); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{"remove": fsys.Remove(two), "rename": fsys.Rename(two, one)} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s of what is not there: got %v, want %v", what, err, fs.ErrNotExist)
				}
			}
		})
	}
}

func TestAppendKeepsWhatStandsBeforeItAndCutsOffTheRest(t *testing.T) {
	dir := t.TempDir()
	for name, fsys := range map[string]vfs.FS{"OS": vfs.OS{}, "Mem": &vfs.Mem{}, "Faulty": &vfs.Faulty{FS: &vfs.Mem{}, CrashAfter: -1, Room: -1}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "log")
			if _, err := fsys.Append(path, 0); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("append to no file: got %v, want %v", err, fs.ErrNotExist)
			}
			if err := vfs.WriteFile(fsys, path, text("one two torn")); err != nil {
				t.Fatal(err)
			}
			f, err := fsys.Append(path, int64(len("one two ")))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{"thr", "ee"} {
				if _, err := io.WriteString(f, s); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, fsys, path); got != "one two three" {
				t.Errorf("contents: got %q, want %q", got, "one two three")
			}
			if _, err := fsys.Append(path, 14); err == nil {
				t.Errorf("append behind 14 bytes of a file of 13: got no error")
			}
		})
	}
}

func TestACrashAnywhereLeavesTheOldOrTheNew(t *testing.T) {
	const path = "dir/file"
	count := &vfs.Faulty{FS: &vfs.Mem{}, CrashAfter: -1, Room: -1}
	if err := vfs.WriteFile(count, path, text("the new contents")); err != nil {
		t.Fatal(err)
	}
	for k := 0; k <= count.Operations(); k++ {
		for _, survive := range []struct{ names, contents bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			disk := &vfs.Mem{}
			if err := vfs.WriteFile(disk, path, text("old")); err != nil {
				t.Fatal(err)
			}
			err := vfs.WriteFile(&vfs.Faulty{FS: disk, CrashAfter: k, Room: -1}, path, text("the new contents"))
			if done := k == count.Operations(); done != (err == nil) {
				t.Errorf("crash after %d of %d operations: got error %v", k, count.Operations(), err)
			}
			if err != nil && !errors.Is(err, vfs.ErrCrashed) {
				t.Errorf("crash after %d operations: got error %v, want %v", k, err, vfs.ErrCrashed)
			}
			got := contents(t, disk.Crash(survive.names, survive.contents), path)
			if got != "old" && got != "the new contents" || err == nil && got == "old" {
				t.Errorf("crash after %d operations, unsynced %+v: got %q (error %v)", k, survive, got, err)
			}
		}
	}
}

func TestAFullDiskIsAnErrorThatNamesPathAndBytesAndKeepsTheOld(t *testing.T) {
	const path, want = "dir/file", "the new contents"
	for room := range int64(len(want)) {
		disk := &vfs.Mem{}
		if err := vfs.WriteFile(disk, path, text("old")); err != nil {
			t.Fatal(err)
		}
		err := vfs.WriteFile(&vfs.Faulty{FS: disk, CrashAfter: -1, Room: room}, path, text(want))
		if !errors.Is(err, vfs.ErrFull) || !strings.Contains(err.Error(), fmt.Sprintf("vfs: write dir/file: after %d bytes: no space left", room)) {
			t.Errorf("room for %d bytes: got error %v", room, err)
		}
		if got := contents(t, disk, path); got != "old" {
			t.Errorf("room for %d bytes: got %q, want the old contents", room, got)
		}
		if names, _ := disk.List("dir"); !slices.Equal(names, []string{"file"}) {
			t.Errorf("room for %d bytes: got files %q, want no temporary one", room, names)
		}
	}
}

// The memory's own promise: without the syncs the contents are lost.
func TestMemLosesWhatWasNotSynced(t *testing.T) {
	disk := &vfs.Mem{}
	f, err := disk.Create("dir/file")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "data"); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, disk.Crash(false, false), "dir/file"); got != "(none)" {
		t.Errorf("nothing synced: got %q, want no file", got)
	}
	if got := contents(t, disk.Crash(true, false), "dir/file"); got != "" {
		t.Errorf("name by chance: got %q, want an empty file", got)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := disk.SyncDir("dir"); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, disk.Crash(false, false), "dir/file"); got != "data" {
		t.Errorf("synced: got %q, want %q", got, "data")
	}
}

func TestAWriteErrorIsPassedOn(t *testing.T) {
	own := errors.New("out of ideas")
	err := vfs.WriteFile(&vfs.Mem{}, "dir/file", func(io.Writer) error { return own })
	if !errors.Is(err, own) {
		t.Errorf("got %v, want %v", err, own)
	}
	if err := vfs.WriteFile(vfs.OS{}, filepath.Join(t.TempDir(), "none", "file"), text("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder that is not there: got %v, want %v", err, fs.ErrNotExist)
	}
}

// Two may write one file at once, such as two jobs their picture of the same name: both succeed,
// and the file is whole, of who came last.
func TestTwoWritersOfOneFileBothSucceed(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"OS": vfs.OS{}, "Mem": &vfs.Mem{}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "curves.png")
			err := vfs.WriteFile(fsys, path, func(w io.Writer) error {
				if err := vfs.WriteFile(fsys, path, text("of the second")); err != nil { // in the middle of the first
					t.Errorf("the second: %v", err)
				}
				_, err := io.WriteString(w, "of the first")
				return err
			})
			if err != nil {
				t.Errorf("the first: %v", err)
			}
			if got := contents(t, fsys, path); got != "of the first" {
				t.Errorf("got %q, want all that the last one wrote", got)
			}
			if names, err := fsys.List(dir); err != nil || len(names) != 1 {
				t.Errorf("got the files %q and error %v, want one alone", names, err)
			}
		})
	}
}
