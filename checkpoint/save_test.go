package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

const savePath = "run/model.safetensors"

// saveStep saves the tensors of a step in place of those of another.
func saveStep(fsys vfs.FS, step int) error {
	if err := fsys.MkdirAll("run"); err != nil {
		return err
	}
	values := make([]float32, 1000)
	for i := range values {
		values[i] = float32(step)
	}
	return save(fsys, savePath, map[string]string{"step": fmt.Sprint(step)}, []Tensor{Float32s("w", []int{len(values)}, values)})
}

// savedStep returns the step whose values the file holds, or -1 where there is none.
func savedStep(t *testing.T, fsys vfs.FS) int {
	t.Helper()
	f, err := open(fsys, savePath)
	if errors.Is(err, fs.ErrNotExist) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	values := make([]float32, 1000)
	if err := f.ReadFloat32s("w", values); err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if v != values[0] || f.Metadata()["step"] != fmt.Sprint(v) {
			t.Fatalf("value %d is %v, value 0 %v, metadata %v", i, v, values[0], f.Metadata())
		}
	}
	return int(values[0])
}

func TestACrashAnywhereInASaveLoadsTheOldOrTheNew(t *testing.T) {
	for _, old := range []int{-1, 10} {
		for k := 0; ; k++ {
			var err error
			for _, survive := range []struct{ names, contents bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
				disk := &vfs.Mem{}
				if old > 0 {
					if err := saveStep(disk, old); err != nil {
						t.Fatal(err)
					}
				}
				err = saveStep(&vfs.Faulty{FS: disk, CrashAfter: k, Room: -1}, 40)
				after := disk.Crash(survive.names, survive.contents)
				got := savedStep(t, after)
				if got != old && got != 40 || err == nil && got != 40 {
					t.Errorf("old %d, crash after %d operations, unsynced %+v: got step %d (error %v), want %d or 40", old, k, survive, got, err, old)
				}
				if err := saveStep(after, 50); err != nil || savedStep(t, after) != 50 {
					t.Errorf("old %d, crash after %d operations: the next save: %v", old, k, err)
				}
			}
			if err == nil {
				break
			}
		}
	}
}

func TestAFullDiskKeepsTheOldFile(t *testing.T) {
	disk := &vfs.Mem{}
	if err := saveStep(disk, 10); err != nil {
		t.Fatal(err)
	}
	err := saveStep(&vfs.Faulty{FS: disk, CrashAfter: -1, Room: 2000}, 20)
	if !errors.Is(err, vfs.ErrFull) || !strings.Contains(err.Error(), savePath) || !strings.Contains(err.Error(), "after 2000 bytes") {
		t.Errorf("got error %v, want one that names the file and 2000 bytes", err)
	}
	if got := savedStep(t, disk); got != 10 {
		t.Errorf("after a full disk: got step %d, want 10", got)
	}
}

func ExampleSave() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	if err := Save(path, map[string]string{"step": "7"}, []Tensor{Float32s("bias", []int{2}, []float32{0.5, -1})}); err != nil {
		fmt.Println(err)
		return
	}
	f, err := Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	bias := make([]float32, 2)
	fmt.Println(f.ReadFloat32s("bias", bias), bias, f.Metadata()["step"])
	// Output: <nil> [0.5 -1] 7
}

// go test -run - -bench . ./checkpoint/
func BenchmarkSave(b *testing.B) {
	values := make([]float32, 11<<20)
	path := filepath.Join(b.TempDir(), "a.safetensors")
	b.SetBytes(4 * int64(len(values)))
	for b.Loop() {
		if err := Save(path, nil, []Tensor{Float32s("w", []int{len(values)}, values)}); err != nil {
			b.Fatal(err)
		}
	}
}

// What a save takes of the processor. go test -run - -bench Write ./checkpoint/
func BenchmarkWrite(b *testing.B) {
	values := make([]float32, 11<<20)
	b.SetBytes(4 * int64(len(values)))
	for b.Loop() {
		if err := Write(io.Discard, nil, []Tensor{Float32s("w", []int{len(values)}, values)}); err != nil {
			b.Fatal(err)
		}
	}
}

// go test -run - -bench Verify ./checkpoint/
func BenchmarkVerify(b *testing.B) {
	values := make([]float32, 11<<20)
	path := filepath.Join(b.TempDir(), "a.safetensors")
	if err := Save(path, nil, []Tensor{Float32s("w", []int{len(values)}, values)}); err != nil {
		b.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.SetBytes(4 * int64(len(values)))
	for b.Loop() {
		if err := f.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}
