package state

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
)

// step makes a job's complete checkpoint after so many steps, of two workers.
func step(t *testing.T, dir string, steps int) (folder string) {
	t.Helper()
	folder = filepath.Join(dir, fmt.Sprintf("step-%08d", steps))
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	var list []checkpoint.FileSum
	for _, name := range []string{"store.safetensors", "worker-0.safetensors", "worker-1.safetensors"} {
		list = append(list, checkpoint.FileSum{Name: name})
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	place := checkpoint.Folder(dir)
	defer place.Close()
	manifest := struct {
		Workers int `json:"workers"`
		checkpoint.Manifest
	}{2, checkpoint.Sealed(list)}
	if err := checkpoint.WriteManifest(t.Context(), place, uint64(steps), &manifest); err != nil {
		t.Fatal(err)
	}
	return folder
}

// files are the paths below a folder.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	if err := walkFiles(dir, func(path string, _ fs.FileInfo) error {
		all = append(all, filepath.ToSlash(path))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// A job that makes checkpoints removes the oldest. One that goes away in the middle of a copy is
// not kept without its files: the folder is copied anew, and if that happens again and again the
// copy is an error.
func TestACheckpointThatIsRemovedWhileItIsCopiedIsCopiedAnew(t *testing.T) {
	for _, times := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprintf("times=%d", times), func(t *testing.T) {
			from, to, tries := t.TempDir(), t.TempDir(), 0
			if err := os.Mkdir(filepath.Join(to, "before"), 0o777); err != nil {
				t.Fatal(err)
			}
			step(t, from, 2)
			newest := step(t, from, 4)
			err := Whole(to, func() error {
				if err := Copy(to, from); err != nil {
					return err
				}
				if tries++; tries > times {
					return nil
				}
				// What a copy has of the newest checkpoint if the job removes it
				// after its manifest was read, as two newer ones are there.
				if err := os.RemoveAll(filepath.Join(to, filepath.Base(newest), "worker-1.safetensors")); err != nil {
					return err
				}
				defer func() { newest = step(t, from, 4+2*tries) }()
				return os.RemoveAll(newest)
			})
			if times == copies {
				if err == nil || !strings.Contains(err.Error(), "is not whole: worker-1.safetensors is not there") {
					t.Errorf("got %v, want that a file is missing", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(to, true); err != nil || tries != times+1 {
				t.Errorf("after %d tries the copy has %q: %v, want a whole checkpoint after %d", tries, files(t, to), err, times+1)
			}
			if _, err := os.Stat(filepath.Join(to, "before")); err != nil {
				t.Errorf("what was there before: %v, want it left alone", err)
			}
			if got, want := len(files(t, to)), len(files(t, from)); got != want {
				t.Errorf("the copy has %q, want %d files", files(t, to), want)
			}
		})
	}
}

// A folder with files of any other kind is copied as it is.
func TestAnyFolderIsCopiedAsItIs(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"complete.json", "deep/complete.json", "deep/n"} {
		path := filepath.Join(from, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("no JSON"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := Whole(to, func() error { return Copy(to, from) }); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(files(t, to)); got != "[complete.json deep/complete.json deep/n]" {
		t.Errorf("the copy has %s", got)
	}
}
