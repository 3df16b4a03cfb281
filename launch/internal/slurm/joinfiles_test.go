package slurm

import (
	"os"
	"path/filepath"
	"testing"
)

func TestJoinFilesBelongToOneLaunchAtATime(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SLURM_JOB_ID", "1234")
	folder, err := JoinFolder("1234")
	if err != nil {
		t.Fatal(err)
	}
	files, err := MakeJoinFiles("1234", "secret", []string{"a:1", "b:2"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{SecretFile: "secret\n", AddressFile: "a:1\nb:2\n"} {
		if b, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v, want %q", name, b, err, want)
		}
	}
	if _, err := MakeJoinFiles("1234", "another", nil); err == nil {
		t.Error("a second launch of the job got the files, too")
	}
	SweepJoinFiles()
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("the files of a launch that runs were swept: %v", err)
	}
	files.Remove()
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the files are still there: %v", err)
	}
}

// A launch that was killed has freed its lock, and left its files.
func TestFilesOfAKilledLaunchAreSwept(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SLURM_JOB_ID", "1234")
	files, err := MakeJoinFiles("1234", "secret", []string{"a:1"})
	if err != nil {
		t.Fatal(err)
	}
	files.lock.Close()
	SweepJoinFiles()
	if _, err := os.Stat(files.folder); !os.IsNotExist(err) {
		t.Errorf("the files are still there: %v", err)
	}
}
