package objects_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, address string) objects.Store {
	t.Helper()
	store, err := objects.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// replace gives a file other contents by renaming, as tools that write data do.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	writeFile(t, path+".new", data)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderIsAStore(t *testing.T) {
	for _, how := range []string{"renamed", "overwritten"} {
		t.Run(how, func(t *testing.T) {
			var dir string
			objectstest.TestStore(t, objectstest.Suite{
				Make: func(t *testing.T, contents map[string][]byte) objects.Store {
					dir = t.TempDir()
					for name, data := range contents {
						writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), data)
					}
					store, err := objects.Open(t.Context(), dir)
					if err != nil {
						t.Fatal(err)
					}
					return store
				},
				Replace: func(t *testing.T, name string, data []byte) {
					if how == "overwritten" {
						writeFile(t, filepath.Join(dir, name), data)
						return
					}
					// A file that was renamed over another one is seen when the
					// old one is opened anew.
					if err := os.Truncate(filepath.Join(dir, name), 7); err != nil {
						t.Fatal(err)
					}
					replace(t, filepath.Join(dir, name), data)
				},
			})
		})
	}
}

// A handle that is open goes on to read the version that it was opened for.
func TestAFileThatIsRenamedOverKeepsItsVersionWhileOpen(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("old"))
	store := open(t, dir)
	info, err := store.Stat(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 3)
	if err := store.ReadRange(t.Context(), info, p, 0); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, "a"), []byte("new"))
	if err := store.ReadRange(t.Context(), info, p, 0); err != nil && !errors.Is(err, objects.ErrChanged) || err == nil && string(p) != "old" {
		t.Errorf("got %q and error %v, want the old bytes or %v", p, err, objects.ErrChanged)
	}
	again, err := store.Stat(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if again.Version == info.Version {
		t.Skip("this file system gave both files one time of modification")
	}
	if err := store.ReadRange(t.Context(), again, p, 0); err != nil || string(p) != "new" {
		t.Errorf("after a new Stat: got %q and error %v, want the new bytes", p, err)
	}
}

func TestListFollowsLinksAndNoCycle(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "real", "1.jpg"), []byte("1"))
	writeFile(t, filepath.Join(elsewhere, "sub", "2.jpg"), []byte("22"))
	for from, to := range map[string]string{
		"linked":     elsewhere,
		"file.jpg":   filepath.Join(elsewhere, "sub", "2.jpg"),
		"real/up":    dir,
		"real/self":  ".",
		"also":       "real",
		".#lock.jpg": "somebody@host.1",
	} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	store := open(t, dir)
	list := func(prefix string) (got []string, err error) {
		for info, err := range store.List(t.Context(), prefix) {
			if err != nil {
				return got, err
			}
			got = append(got, fmt.Sprintf("%s %d", info.Name, info.Size))
		}
		return got, nil
	}
	want := []string{"also/1.jpg 1", "file.jpg 2", "linked/sub/2.jpg 2", "real/1.jpg 1"}
	if got, err := list(""); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q and error %v, want %q", got, err, want)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "real", "dead.jpg")); err != nil {
		t.Fatal(err)
	}
	if _, err := list("real/"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "dead.jpg") {
		t.Errorf("a link that leads nowhere: got error %v, want one that names it", err)
	}
}

// Names may come out of an index that somebody else wrote.
func TestNamesDoNotLeadOutOfTheFolder(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "secret"), []byte("x"))
	writeFile(t, filepath.Join(dir, "data", "a"), []byte("x"))
	store := open(t, filepath.Join(dir, "data"))
	for _, name := range []string{"../secret", "a/../../secret", filepath.Join(dir, "secret"), "", ".", "./a", "a/"} {
		if info, err := store.Stat(t.Context(), name); err == nil {
			t.Errorf("stat %q: got %+v, want an error", name, info)
		}
		if err := store.ReadRange(t.Context(), objects.Info{Name: name, Size: 1}, make([]byte, 1), 0); err == nil {
			t.Errorf("read %q: got no error", name)
		}
	}
}

func TestOneFileIsOpenedByPathOrURL(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a b%.rec")
	writeFile(t, path, []byte("123"))
	for _, address := range []string{path, "file://" + strings.ReplaceAll(filepath.ToSlash(path), "%", "%25")} {
		store, info, err := objects.OpenFile(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		defer store.Close()
		p := make([]byte, 3)
		if err := store.ReadRange(t.Context(), info, p, 0); err != nil || string(p) != "123" || info.Name != "a b%.rec" {
			t.Errorf("%s: got %q of %+v and error %v", address, p, info, err)
		}
	}
	for _, bad := range []string{path + ".idx", dir, ""} {
		if _, info, err := objects.OpenFile(t.Context(), bad); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, info)
		}
	}
}

func TestAnUnknownSchemeNamesThoseThatAreKnown(t *testing.T) {
	_, err := objects.Open(t.Context(), "s3://key:secret@bucket/prefix?token=secret")
	if !errors.Is(err, objects.ErrScheme) {
		t.Fatalf("got error %v, want %v", err, objects.ErrScheme)
	}
	for _, want := range []string{`"s3"`, `"file"`, "checkpoint/bucket", "s3://bucket/prefix"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want one that has %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells a secret: %v", err)
	}
	for _, bad := range []string{"", "file://host/a", "file:///a?b", "file:///a#b", filepath.Join(t.TempDir(), "none"), "file://"} {
		if _, err := objects.Open(t.Context(), bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// A folder of many files is read in any order by many, and few of them are open.
func TestOpenFilesAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the files that are open are counted in /proc")
	}
	opened := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	dir := t.TempDir()
	var infos []objects.Info
	for i := range 1000 {
		writeFile(t, filepath.Join(dir, fmt.Sprint(i)), []byte("x"))
	}
	store := open(t, dir)
	for info, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	before := opened()
	var readers sync.WaitGroup
	for r := range 20 {
		readers.Go(func() {
			p := make([]byte, 1)
			for i := range infos {
				if err := store.ReadRange(t.Context(), infos[(i*7+r*50)%len(infos)], p, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if n := opened() - before; n > 256+20 {
		t.Errorf("%d files are open, want at most 256", n)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if n := opened() - before; n > 20 {
		t.Errorf("%d files are open after Close", n)
	}
}
