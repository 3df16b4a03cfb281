package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/vfs"
)

// at returns the tensors of a step.
func at(step int) []Tensor {
	values := make([]float32, 1000)
	for i := range values {
		values[i] = float32(step)
	}
	return []Tensor{Float32s("w", []int{len(values)}, values)}
}

// latest returns the step whose values the newest checkpoint holds, or -1.
func latest(t *testing.T, fsys vfs.FS) int {
	t.Helper()
	d, err := openFolder(fsys, "run", 2)
	if err != nil {
		t.Fatal(err)
	}
	f, step, err := d.Latest()
	if errors.Is(err, ErrNone) {
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
		if v != float32(step) || f.Metadata()["step"] != fmt.Sprint(step) {
			t.Fatalf("step %d: value %d is %v, metadata %v", step, i, v, f.Metadata())
		}
	}
	return int(step)
}

func saveSteps(fsys vfs.FS, steps ...int) error {
	d, err := openFolder(fsys, "run", 2)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := d.Save(uint64(s), map[string]string{"step": fmt.Sprint(s)}, at(s)); err != nil {
			return err
		}
	}
	return nil
}

func TestACrashAnywhereInASaveLoadsTheOldOrTheNew(t *testing.T) {
	for _, before := range [][]int{nil, {10}, {10, 20, 30}} {
		old := -1
		if len(before) > 0 {
			old = before[len(before)-1]
		}
		for k := 0; ; k++ {
			var err error
			for _, survive := range []struct{ names, contents bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
				disk := &vfs.Mem{}
				if err := saveSteps(disk, before...); err != nil {
					t.Fatal(err)
				}
				err = saveSteps(&vfs.Faulty{FS: disk, CrashAfter: k, Room: -1}, 40)
				after := disk.Crash(survive.names, survive.contents)
				got := latest(t, after)
				if got != old && got != 40 || err == nil && got != 40 {
					t.Errorf("steps %v, crash after %d operations, unsynced %+v: got step %d (error %v), want %d or 40", before, k, survive, got, err, old)
				}
				if err := saveSteps(after, 50); err != nil || latest(t, after) != 50 {
					t.Errorf("steps %v, crash after %d operations: the next save: %v", before, k, err)
				}
				if names, _ := after.List("run"); slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, vfs.TempSuffix) }) {
					t.Errorf("steps %v, crash after %d operations: left over after the next save: %q", before, k, names)
				}
			}
			if err == nil {
				break
			}
		}
	}
}

func TestAFullDiskKeepsTheOldCheckpoint(t *testing.T) {
	disk := &vfs.Mem{}
	if err := saveSteps(disk, 10); err != nil {
		t.Fatal(err)
	}
	err := saveSteps(&vfs.Faulty{FS: disk, CrashAfter: -1, Room: 2000}, 20)
	if !errors.Is(err, vfs.ErrFull) || !strings.Contains(err.Error(), "step-000000000020.safetensors") || !strings.Contains(err.Error(), "after 2000 bytes") {
		t.Errorf("got error %v, want one that names the file and 2000 bytes", err)
	}
	if got := latest(t, disk); got != 10 {
		t.Errorf("latest: got step %d, want 10", got)
	}
}

func TestAFolderKeepsTheLastFewAndLeavesOthersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run")
	d, err := OpenFolder(dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Latest(); !errors.Is(err, ErrNone) {
		t.Errorf("empty folder: got %v, want %v", err, ErrNone)
	}
	others := []string{"curves.png", "step-7.safetensors", "step-000000000001.safetensors.bak"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []uint64{5, 100, 20, 1 << 50, 3} {
		if err := d.Save(s, nil, at(int(s))); err != nil {
			t.Fatal(err)
		}
	}
	steps, err := d.Steps()
	if err != nil || !slices.Equal(steps, []uint64{3, 20, 100, 1 << 50}) {
		t.Errorf("steps: got %v (%v), want the new 3 and the last three", steps, err)
	}
	f, step, err := d.Latest()
	if err != nil || step != 1<<50 {
		t.Fatalf("latest: got %d (%v), want %d", step, err, uint64(1)<<50)
	}
	f.Close()
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Truncate(d.Path(1<<50), 100); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Latest(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.Path(1<<50)) {
		t.Errorf("damaged: got %v, want %v and the path", err, ErrDamaged)
	}
	if f, err := d.Open(100); err != nil {
		t.Errorf("the one before: %v", err)
	} else {
		f.Close()
	}
	if err := d.RemoveAfter(20); err != nil {
		t.Fatal(err)
	}
	if steps, err := d.Steps(); err != nil || !slices.Equal(steps, []uint64{3, 20}) {
		t.Errorf("steps after RemoveAfter(20): got %v (%v), want [3 20]", steps, err)
	}
	if _, err := OpenFolder(dir, -1); err == nil {
		t.Error("keep -1: got no error")
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
