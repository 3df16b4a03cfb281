//go:build unix

package scratch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/files/lockfile"
)

// abandoned is a folder whose process was killed.
func abandoned(t *testing.T) string {
	t.Helper()
	f, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(f.Path, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.lock.Close() // as the kernel does
	return f.Path
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestAFolderGoesWithItsProcess(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	mine, err := New("mine")
	if err != nil {
		t.Fatal(err)
	}
	dead := abandoned(t)
	again, err := New("next")
	if err != nil {
		t.Fatal(err)
	}
	if exists(dead) {
		t.Errorf("%s of a process that was killed is there after the next New", dead)
	}
	if !exists(mine.Path) || !exists(again.Path) {
		t.Error("folders of living processes were removed")
	}
	for _, f := range []*Folder{mine, again} {
		if err := f.Remove(); err != nil || exists(f.Path) {
			t.Errorf("Remove of %s: %v", f.Path, err)
		}
	}
}

// What is not certainly a folder of ours whose process is gone stays.
func TestSweepLeavesWhatIsNotOurs(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T) string
		gone bool
	}{
		{"abandoned", abandoned, true},
		{"abandoned before it was locked", func(t *testing.T) string {
			path := abandoned(t)
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			mustMake(t, path, 0o700)
			return path
		}, true},
		{"no lock of ours, but files", func(t *testing.T) string {
			path := abandoned(t)
			mustRemove(t, filepath.Join(path, lockName()))
			return path
		}, false},
		{"a lock of another host", func(t *testing.T) string {
			path := abandoned(t)
			if err := os.Rename(filepath.Join(path, lockName()), filepath.Join(path, lockName()+"x")); err != nil {
				t.Fatal(err)
			}
			return path
		}, false},
		{"others may read it", func(t *testing.T) string {
			path := abandoned(t)
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
			return path
		}, false},
		{"a living process", func(t *testing.T) string {
			f, err := New("test")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Remove() })
			return f.Path
		}, false},
		{"a link to one", func(t *testing.T) string {
			path := abandoned(t)
			real := filepath.Join(t.TempDir(), "real")
			if err := os.Rename(path, real); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(real, path); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(path, "a") // what must stay
		}, false},
		{"another name", func(t *testing.T) string {
			path := abandoned(t)
			if err := os.Rename(path, path+"x"); err != nil {
				t.Fatal(err)
			}
			return path + "x"
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			path := tc.make(t)
			if Sweep(); exists(path) == tc.gone {
				t.Errorf("%s is there after Sweep: %t", path, !tc.gone)
			}
		})
	}
}

// A sweep between the making of a folder and its lock takes the folder; New makes another one.
func TestNewAndSweepAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	done := make(chan struct{})
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for {
			select {
			case <-done:
				return
			default:
				Sweep()
			}
		}
	}()
	for range 300 {
		f, err := New("race")
		if err != nil {
			t.Error(err)
			break
		}
		if !lockfile.At(f.lock, filepath.Join(f.Path, lockName())) {
			t.Errorf("%s was swept while its process lives", f.Path)
		}
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	<-swept
}

func mustMake(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Mkdir(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mustRemove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
