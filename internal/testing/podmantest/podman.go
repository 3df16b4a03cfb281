// Package podmantest runs containers for tests with Debian's podman and runc, in folders of the
// test's own: no daemon, no registry, no trace in what else podman has on the machine. Containers
// use the machine's network.
package podmantest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// Restricted are the options of podman run that say what the restricted level of Kubernetes' pod
// security standards says, with a read-only root file system. (podman mounts a /tmp that can be
// written.)
var Restricted = []string{"--user=65532:65532", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"}

// A Podman is podman with storage of its own.
type Podman struct {
	dir, cgroup string
	program     string
}

// maxLimit bounds open files and processes in a container. runc cannot raise them above those of
// the test without the right to (CAP_SYS_RESOURCE), and podman's own are higher.
const maxLimit = 4096

// Start makes a Podman that is gone with all its containers when the test ends. It skips the test
// where there is none.
func Start(t testing.TB) *Podman {
	t.Helper()
	sshtest.Cluster(t)
	p := &Podman{program: sshtest.Program(t, "podman", "podman")}
	sshtest.Program(t, "runc", "runc")
	if os.Getuid() != 0 {
		sshtest.Skip(t, "containers of these tests need root")
	}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var err error
	// The path is short, for sockets lie in the folder.
	if p.dir, err = os.MkdirTemp("", "podman-"); err != nil {
		t.Fatal(err)
	}
	p.cgroup = filepath.Base(p.dir)
	t.Cleanup(func() { p.close(t) })
	files := min(uint64(maxLimit), limit.Max)
	for name, content := range map[string]string{
		"containers.conf": fmt.Sprintf(`[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
lock_type = "file"
tmp_dir = %q
[containers]
default_ulimits = ["nofile=%d:%[2]d", "nproc=%[3]d:%[3]d"]
log_driver = "none"
netns = "host"
`, filepath.Join(p.dir, "tmp"), files, maxLimit),
		// vfs needs nothing of the file system below.
		"storage.conf": fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(p.dir, "storage"), filepath.Join(p.dir, "run")),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Command is a command of podman.
func (p *Podman) Command(args ...string) *exec.Cmd {
	return p.CommandContext(context.Background(), args...)
}

// CommandContext is Command that is killed when ctx ends.
func (p *Podman) CommandContext(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = append(os.Environ(), p.Env()...)
	return cmd
}

// Env are the variables that every command of podman needs.
func (p *Podman) Env() []string {
	return []string{"CONTAINERS_CONF=" + filepath.Join(p.dir, "containers.conf"), "CONTAINERS_STORAGE_CONF=" + filepath.Join(p.dir, "storage.conf")}
}

// RunArgs are the arguments of podman run for a container of that name, restricted, with more
// options. What the image runs gets args.
func (p *Podman) RunArgs(name, image string, options []string, args ...string) []string {
	all := append([]string{"run", "--rm", "--name=" + name, "--cgroup-parent=/" + p.cgroup}, Restricted...)
	return append(append(append(all, options...), image), args...)
}

// Load loads the image of an archive and returns its name. It skips the test where a container of
// it cannot be run; probe are arguments for what the image runs, which then must end with code 0.
func (p *Podman) Load(t testing.TB, archive string, probe ...string) string {
	t.Helper()
	out, err := p.Command("load", "--quiet", "--input", archive).CombinedOutput()
	if err != nil {
		t.Fatalf("podman load: %v: %s", err, out)
	}
	_, image, ok := strings.Cut(strings.TrimSpace(string(out)), ": ")
	if !ok {
		t.Fatalf("podman load printed %q, want the name of an image", out)
	}
	out, err = p.Command(p.RunArgs("probe", image, nil, probe...)...).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 125 && exit.ExitCode() <= 127:
		// The code is podman's own.
		sshtest.Skip(t, "podman and runc cannot run a container on this machine: %s", out)
	case err != nil:
		t.Fatalf("%q in a container: %v: %s", probe, err, out)
	}
	return image
}

// close ends all containers and removes the folders.
func (p *Podman) close(t testing.TB) {
	if out, err := p.Command("rm", "--force", "--all", "--time=0").CombinedOutput(); err != nil {
		t.Errorf("podman rm: %v: %s", err, out)
	}
	p.removeCgroups()
	if err := os.RemoveAll(p.dir); err != nil {
		t.Error(err)
	}
}

// removeCgroups removes the control groups of the containers, in each hierarchy (version 1) or the
// one (version 2).
func (p *Podman) removeCgroups() {
	for _, pattern := range []string{"/sys/fs/cgroup/" + p.cgroup, "/sys/fs/cgroup/*/" + p.cgroup} {
		groups, _ := filepath.Glob(pattern)
		for _, g := range groups {
			inner, _ := filepath.Glob(filepath.Join(g, "*", "*"))
			outer, _ := filepath.Glob(filepath.Join(g, "*"))
			for _, dir := range append(append(inner, outer...), g) {
				// Rmdir fails for files and for folders in use, and both stay.
				syscall.Rmdir(dir)
			}
		}
	}
}
