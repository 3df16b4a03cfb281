package procs

import (
	"io"
	"os"
	"os/exec"
	"testing"
)

func TestAProcessIsFoundByItsEnvironment(t *testing.T) {
	mark := t.TempDir()
	cmd := exec.Command("cat")
	cmd.Env = append(os.Environ(), "PROCS_TEST="+mark, "DMLC_ROLE=server")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Start returns while the kernel may still be laying out the process's memory, its
	// environment too. It runs once it answers.
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	list, err := Find("PROCS_TEST", mark)
	if err != nil || len(list) != 1 || list[0].PID != cmd.Process.Pid || list[0].Env("DMLC_ROLE") != "server" || list[0].Env("DMLC") != "" {
		t.Errorf("got %+v, %v, want process %d, a server", list, err, cmd.Process.Pid)
	}
	u, err := UsageOf(cmd.Process.Pid)
	if err != nil || u.Resident < 100 || u.Files < 3 {
		t.Errorf("got %+v, %v, want some memory and three files", u, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := UsageOf(cmd.Process.Pid); err == nil {
		t.Error("a process that has ended: got no error")
	}
	if list, _ := Find("PROCS_TEST", mark); len(list) != 0 {
		t.Errorf("got %+v after its end, want none", list)
	}
}
