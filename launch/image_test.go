package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/testing/podmantest"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
	"github.com/paragon-train/paragon/launch/internal/command/image"
)

// makeImage runs `launch image` in this process and returns the code and what was printed.
func makeImage(args ...string) (code int, stdout, stderr string) {
	var o, e bytes.Buffer
	code = image.Run(args, &o, &e)
	return code, o.String(), e.String()
}

func TestImageSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	script := write("train.sh", "#!/bin/sh\n")
	text := write("text", "hello")
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	output := filepath.Join(dir, "image.tar")
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	testbuild.NeedsWorkspace(t)
	if err := testbuild.Programs(dir, "examples/cifar10"); err != nil {
		t.Fatal(err)
	}
	cifar10 := filepath.Join(dir, "cifar10")
	flags := []string{"--tag", "trainer", "--output", output, "--launch", launchProgram}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--output", output, "--", launchProgram}, 2, "--tag is missing"},
		{[]string{"--tag", "Trainer", "--output", output, "--", launchProgram}, 2, `tag "Trainer"`},
		{[]string{"--tag", "trainer", "--", launchProgram}, 2, "--output FILE.tar (or --layout FOLDER) is missing"},
		{flags, 2, "the worker's program is missing"},
		{append(flags, "--", "./cifar10", "--epochs", "5"), 2, `got arguments "--epochs 5" of the program`},
		{append(flags, "--", "go", "run", "./examples/cifar10", "--epochs", "5"), 2, `got arguments "--epochs 5" of the program`},
		{append(flags, "--platform", "linux/386", "--", launchProgram), 2, `platform "linux/386" is unknown; want linux/amd64 or linux/arm64`},
		{append(flags, "--file", "conf", "--", launchProgram), 2, "write SOURCE:DESTINATION"},
		{append(flags, "--tags", "x", "--", launchProgram), 2, "did you mean --tag?"},
		{append(flags, "--", filepath.Join(dir, "none")), 1, "none: no such file or directory"},
		{append(flags, "--", script), 1, "train.sh is a script for /bin/sh, want a program"},
		{append(flags, "--", text), 1, "text is not a Linux program (ELF)"},
		{append(flags, "--", shell), 1, "is not static: it needs /lib"},
		{append(flags, "--", cifar10), 1, `it opens CUDA through them (package nn); give "-- go run github.com/paragon-train/paragon/examples/cifar10"`},
		{append(flags, "--platform", "linux/"+other, "--", launchProgram), 1, "is a program for linux/" + runtime.GOARCH + ", and --platform is linux/" + other},
		{append(flags, "--", launchProgram), 1, "the worker's program is called launch"},
		{append(flags, "--launch", shell, "--", launchProgram), 1, "the launch program " + shell + " is not static"},
		{append(flags, "--base", filepath.Join(dir, "none.tar"), "--", shell), 1, "base: stat"},
		{append(flags, "--base", text, "--", shell), 1, "want an archive of one image"},
		{append(flags, "--", "go", "run", filepath.Join(dir, "none.go")), 1, "go build"},
	} {
		code, stdout, stderr := makeImage(tc.args...)
		if code != tc.code || !strings.Contains(stderr, tc.want) || stdout != "" {
			t.Errorf("%q: code %d, %q, want code %d and %q", tc.args[min(4, len(tc.args)):], code, stderr, tc.code, tc.want)
		}
		if _, err := os.Stat(output); err == nil {
			t.Fatalf("%q: there is an image", tc.args)
		}
	}
}

// buildTrainer builds examples/customtrainer, a worker that is static.
func buildTrainer(t *testing.T) string {
	t.Helper()
	testbuild.NeedsWorkspace(t)
	dir := t.TempDir()
	if err := testbuild.Programs(dir, "examples/customtrainer"); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "customtrainer")
}

// What an image that launch makes is able to do in containers that are restricted as Kubernetes
// restricts pods.
func TestImageRunsInContainers(t *testing.T) {
	t.Parallel()
	podman := podmantest.Start(t)
	file := filepath.Join(t.TempDir(), "trainer.tar")
	// By the program itself: under the race detector compression takes a minute.
	out, err := exec.Command(launchProgram, "image", "--tag", "trainer:v1", "--output", file, "--", buildTrainer(t)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "trainer:v1 for linux/") {
		t.Fatalf("launch image: %v: %s", err, out)
	}
	image := podman.Load(t, file, "--help")
	t.Run("a job in one", func(t *testing.T) { runJobInContainer(t, podman, image) })
	t.Run("agents", func(t *testing.T) { runAgentsInContainers(t, podman, image) })
}

// A whole job runs in a container; its exit code is the container's.
func runJobInContainer(t *testing.T, podman *podmantest.Podman, image string) {
	out, err := podman.Command(podman.RunArgs("job", image, nil, "-n", "2", "-s", "2", "--", "customtrainer", "--epochs", "1")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "worker 1 of 2: farthest weight from the truth") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = podman.Command(podman.RunArgs("job", image, nil, "-n", "2", "--", "customtrainer", "--no-such-flag")...).CombinedOutput()
	if exit := exitCode(err); exit != 2 {
		t.Errorf("a worker's exit code 2: the container's is %d, %v: %s", exit, err, out)
	}
}

// joinAddress is in what launch says about agents.
var joinAddress = regexp.MustCompile(`launch agent --join (\S+) `)

// The launcher and four agents, each in a container of its own as in pods, are a job. An agent that
// is killed is a lost host; an agent that gets SIGTERM, as a pod that is evicted, is one, too, and
// its container ends with 143, which no controller takes for success.
func runAgentsInContainers(t *testing.T, podman *podmantest.Podman, image string) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	// As the volume of a Secret: all may read it, and nobody write.
	if err := os.WriteFile(secret, []byte(dialin.NewSecret().Encode()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	volume := []string{"--volume=" + secret + ":/secret:ro"}
	start := func(name string, args ...string) *launcher {
		return startCommand(t, nil, podman.Command(podman.RunArgs(name, image, volume, args...)...), dir, podman.Env())
	}
	l := start("launcher", "--launcher", "agents", "--agents", "4", "--listen", "127.0.0.1:0", "--secret-file", "/secret", "-n", "4", "-s", "2", "--backups", "1",
		"--elastic-training-enabled", "--rejoin", "0", "--host-timeout", "2s", "--", "customtrainer", "--epochs", "1000000")
	l.await(t, "launch agent --join ")
	address := joinAddress.FindStringSubmatch(l.stderr.String())[1]
	var agents []*launcher
	for i := range 4 {
		agents = append(agents, start(fmt.Sprintf("n%d", i), "agent", "--join", address, "--secret-file", "/secret", "--name", fmt.Sprintf("n%d", i)))
	}
	l.await(t, "of 4, epoch 1")
	signal := func(name, signal string) {
		t.Helper()
		if out, err := podman.Command("kill", "--signal="+signal, name).CombinedOutput(); err != nil {
			t.Errorf("podman kill %s: %v: %s", name, err, out)
		}
	}
	signal("n3", "KILL")
	l.await(t, "of 3, epoch ")
	if code := agents[3].exit(t); code != 128+int(syscall.SIGKILL) {
		t.Errorf("the container of a killed agent ended with %d", code)
	}
	signal("n2", "TERM")
	l.await(t, "of 2, epoch ")
	if code := agents[2].exit(t); code != 128+int(syscall.SIGTERM) {
		t.Errorf("the container of an agent that got SIGTERM ended with %d, want 143", code)
	}

	// The kubelet does it in this way.
	signal("launcher", "TERM")
	if code := l.exit(t); code != 128+int(syscall.SIGTERM) {
		t.Errorf("after SIGTERM launch ended with %d, want 143", code)
	}
	for i := range 2 {
		if code := agents[i].exit(t); code != 0 {
			t.Errorf("agent %d ended with %d when the job was over, want 0", i, code)
		}
	}
}

// exitCode is that of a command that ran; -1: it did not.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}
