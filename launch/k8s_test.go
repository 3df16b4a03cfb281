package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/command"
)

var updateK8s = flag.Bool("update-k8s", false, "write the golden manifests")

// k8sRenders are the golden manifests in internal/kubernetes/testdata, which are also checked
// against Kubernetes' own schemas and rules there.
var k8sRenders = map[string]string{
	"plain": "--image registry.example.com/me/train:1 -n 2 -s 2 -- /app/train --epochs 5",
	"jobset": "--image registry.example.com/me/train@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --name resnet --namespace vision " +
		"-n 8 -s 4 --slots 2 --gpus 1 --cpus 16 --memory 64Gi --server-cpus 4 --server-memory 8Gi --pvc checkpoints:/checkpoints --pvc images:/data:ro " +
		"--jobset --kueue training --node-selector nvidia.com/gpu.product=H200 --toleration spot=true:NoSchedule --backups 1 --on-worker-loss shrink " +
		"-- /app/train --data /data --checkpoint-dir /checkpoints/resnet",
	"elastic": "--image train:1 --name job -n 3 -s 2 --elastic-training-enabled --min-workers 2 --max-workers 16 --stop-timeout 45s --drain 1m " +
		"--env MODE=fast --env-worker A=b,c --pvc checkpoints:/checkpoints -- /app/train --checkpoint-dir /checkpoints",
}

func runK8s(t *testing.T, secret string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"launch", "k8s", "render", "--secret-file", secret}, args...)
	code = launch(args, &out, &errs)
	return code, out.String(), errs.String()
}

// testSecret is a file with a secret that is none.
func testSecret(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("paragon-secret-1 "+strings.Repeat("A", 43)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestK8sManifestsAreTheGoldenOnes(t *testing.T) {
	secret := testSecret(t)
	for name, line := range k8sRenders {
		code, got, stderr := runK8s(t, secret, strings.Fields(line)...)
		if code != 0 {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
			continue
		}
		path := filepath.Join("internal", "kubernetes", "testdata", name+".yaml")
		if *updateK8s {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("launch k8s render %s: not what %s holds (-update-k8s writes it):\n%s", line, path, got)
		}
	}
}

func TestK8sMakesTheSecretOnce(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	line := strings.Fields(k8sRenders["plain"])
	code, first, stderr := runK8s(t, secret, line...)
	if code != 0 || !strings.Contains(stderr, "created the secret "+secret) {
		t.Fatalf("exit code %d, %q, want 0 and a word about the secret", code, stderr)
	}
	info, err := os.Stat(secret)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the secret's file is %v, %v, want mode 0600", info, err)
	}
	text, _ := os.ReadFile(secret)
	if !strings.Contains(first, strings.TrimSpace(string(text))) {
		t.Error("the manifests lack the secret")
	}
	if code, second, stderr := runK8s(t, secret, line...); code != 0 || second != first || stderr != "" {
		t.Errorf("a second time: exit code %d, the same text: %v, %q", code, second == first, stderr)
	}
}

// The environment of this machine is not that of the pods, and --env NAME means the value that the
// variable has here.
func TestK8sPassesOnTheVariablesThatAreNamed(t *testing.T) {
	t.Setenv("TOKEN", "a$(HOME)b")
	t.Setenv("PARAGON_LOG_FORMAT", "json")
	t.Setenv("PARAGON_SSH", "ssh -v")
	code, out, stderr := runK8s(t, testSecret(t), "--image", "train", "-n", "1", "--env", "TOKEN", "--env", "PARAGON_RESUME=", "--", "/app/train")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if !strings.Contains(out, "TOKEN=a$$(HOME)b\n") || !strings.Contains(out, "- PARAGON_RESUME=\n") {
		t.Errorf("variables are missing in\n%s", out)
	}
	for _, no := range []string{"log-format", "ssh", "PARAGON_RESUME=1"} {
		if strings.Contains(out, no) {
			t.Errorf("%s is in\n%s", no, out)
		}
	}
}

// Checkpoints that go with a pod, and pods that end before their checkpoint, are warned of.
func TestK8sWarnsOfCheckpointsThatAreLost(t *testing.T) {
	secret := testSecret(t)
	for line, want := range map[string]string{
		"-- /p --checkpoint-dir ckpt":                                      "launch: checkpoints in ckpt are lost with the pod that wrote them: mount a volume that all pods share, with --pvc CLAIM:/checkpoints, or name a bucket\n",
		"-- /p --checkpoint-dir /tmp/x":                                    "launch: checkpoints in /tmp/x are lost",
		"-- /p --checkpoint-dir s3://bucket/x":                             "",
		"--pvc c:/ckpt -- /p --checkpoint-dir /ckpt":                       "",
		"--drain 20s --stop-timeout 2m -- /p --checkpoint-dir s3://bucket": "launch: --drain 20s is less than --stop-timeout 2m0s",
	} {
		code, _, stderr := runK8s(t, secret, append([]string{"--image", "a", "-n", "1"}, strings.Fields(line)...)...)
		if code != 0 || !strings.HasPrefix(stderr, want) || want == "" && stderr != "" {
			t.Errorf("launch k8s render %s: exit code %d, %q, want %q", line, code, stderr, want)
		}
	}
}

// A job with checkpoints has the time to write one, in the pods of workers, too.
func TestK8sGivesPodsTheTimeForACheckpoint(t *testing.T) {
	for line, want := range map[string][]string{
		"-- /p":                              {"terminationGracePeriodSeconds: 28", "terminationGracePeriodSeconds: 30", "- 20s"},
		"-- /p --checkpoint-dir s3://bucket": {"- 30s\n", "- 40s\n", "terminationGracePeriodSeconds: 80", "terminationGracePeriodSeconds: 50"},
		"--stop-timeout 2m -- /p":            {"- 2m10s\n", "terminationGracePeriodSeconds: 260", "terminationGracePeriodSeconds: 140"},
	} {
		code, out, stderr := runK8s(t, testSecret(t), append([]string{"--image", "a", "-n", "1"}, strings.Fields(line)...)...)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("launch k8s render %s: exit code %d, %s, no %q in\n%s", line, code, stderr, w, out)
			}
		}
	}
}

// Quotas refuse pods that request nothing.
func TestK8sPodsRequestProcessorsAndMemory(t *testing.T) {
	for line, want := range map[string]int{"": 3, "--cpus 4 --server-memory none": 2, "--cpus none --memory none --server-cpus none --server-memory none": 1} {
		code, out, stderr := runK8s(t, testSecret(t), append(strings.Fields("--image a -n 4 --slots 2 "+line), "--", "/p")...)
		if got := strings.Count(out, " memory: "); code != 0 || got != want {
			t.Errorf("%s: exit code %d, %s, %d pods request memory, want %d, in\n%s", line, code, stderr, got, want, out)
		}
		if line == "" && !strings.Contains(out, "cpu: \"2\"\n              memory: 4Gi") {
			t.Errorf("a pod of two workers does not request twice what one has:\n%s", out)
		}
	}
}

// A secret in the current folder would be committed with it.
func TestK8sKeepsTheSecretOutOfTheCurrentFolder(t *testing.T) {
	settings, here := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", settings)
	t.Setenv("HOME", settings)
	t.Chdir(here)
	render := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		return launch(append([]string{"launch", "k8s", "render", "--image", "a", "-n", "1"}, args...), &out, &errs), errs.String()
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"paragon.secret": {"--", "/p"}, "vision.resnet.secret": {"--name", "resnet", "--namespace", "vision", "--", "/p"}} {
		path := filepath.Join(folder, "paragon", "k8s", name)
		if code, stderr := render(args...); code != 0 || !strings.Contains(stderr, "created the secret "+path) {
			t.Errorf("exit code %d, %q, want 0 and a word about %s", code, stderr, path)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v, want mode 0600", path, info, err)
		}
	}
	if left, err := os.ReadDir(here); err != nil || len(left) > 0 {
		t.Errorf("the current folder has %v, %v, want nothing", left, err)
	}
	// One that an earlier version made is still the job's.
	if err := os.WriteFile("paragon-secret", []byte("paragon-secret-1 "+strings.Repeat("A", 43)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stderr := render("--", "/p"); code != 0 || stderr != "" {
		t.Errorf("with ./paragon-secret: exit code %d, %q, want 0 and no word", code, stderr)
	}
}

func TestK8sSaysWhatIsWrong(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	long := strings.Repeat("x", 49)
	for line, want := range map[string]string{
		"-n 1 -- /p":                                                       "the image is missing; give --image NAME",
		"--image A -n 1 -- /p":                                             `--image "A" is not the name of an image`,
		"--image a|b -n 1 -- /p":                                           `--image "a b" is not the name of an image`,
		"--image a:b:c -n 1 -- /p":                                         "is not the name of an image",
		"--image a -n 1":                                                   "no command for the workers; write it at the end",
		"--image a -- /p":                                                  "the number of workers is missing; give -n NUMBER",
		"--image a -n 0 -- /p":                                             "-n is 0, want 1 to 5000 workers",
		"--image a -n 4000 -s 4000 -- /p":                                  "at most 5000",
		"--image a -n 1 -- ./p":                                            "./p is relative to the current folder, which the pods do not have; give the program's path in the image, such as /app/p",
		"--image a -n 1 -- go run ./p":                                     "go run compiles",
		"--image a -n 1 --name A -- /p":                                    `--name "A" is not a DNS name`,
		"--image a -n 1 --name 1a -- /p":                                   "with a letter first",
		"--image a -n 1 --name " + long + " -- /p":                         "49 letters, want at most 48: the host names of the pods begin with it",
		"--image a -n 1 --namespace a.b -- /p":                             `--namespace "a.b" is not a DNS name`,
		"--image a -n 1 --kueue A_ -- /p":                                  `--kueue "A_" is not the name of a LocalQueue`,
		"--image a -n 1 --kueue= -- /p":                                    "--kueue is empty",
		"--image a -n 1 --slots 0 -- /p":                                   "--slots is 0, want 1 or more",
		"--image a -n 2 --slots 3 -- /p":                                   "--slots 3 is more than the 2 workers of -n",
		"--image a -n 1 --user 0 -- /p":                                    "root is not allowed",
		"--image a -n 1 --drain 0s -- /p":                                  "--drain is 0s, want at least 1s",
		"--image a -n 1 --cpus lots -- /p":                                 `--cpus "lots" is not an amount`,
		"--image a -n 1 --memory 0 -- /p":                                  `--memory "0" is not an amount above 0`,
		"--image a -n 1 --server-memory -1Gi -- /p":                        `--server-memory "-1Gi" is not an amount above 0`,
		"--image a -n 1 --gpus auto -- /p":                                 `--gpus "auto": pods must request their GPUs; give the number for each worker`,
		"--image a -n 1 --pvc data -- /p":                                  "write claim:/path",
		"--image a -n 1 --pvc data:rel -- /p":                              "write claim:/path",
		"--image a -n 1 --pvc data:/tmp/x -- /p":                           "/tmp is used in the pods already",
		"--image a -n 1 --pvc data:/etc -- /p":                             "/etc/paragon/secret is used in the pods already",
		"--image a -n 1 --pvc data:/a/../b -- /p":                          "without . and ..",
		"--image a -n 1 --pvc a:/x --pvc b:/x -- /p":                       "two volumes at /x",
		"--image a -n 1 --node-selector zone -- /p":                        "is not a label; write key=value",
		"--image a -n 1 --toleration a:Never -- /p":                        `--toleration "a:Never" is not a toleration`,
		"--image a -n 1 -H hosts -- /p":                                    "--hostfile is not for Kubernetes: the hosts are the job's own pods",
		"--image a -n 1 --launcher ssh -- /p":                              "--launcher is not for Kubernetes: each pod runs an agent",
		"--image a -n 1 --listen :1 -- /p":                                 "--listen is not for Kubernetes",
		"--image a -n 1 --sync-dst-dir /x -- /p":                           "--sync-dst-dir is not for Kubernetes",
		"--image a -n 1 --scheduler-host d1 -- /p":                         "--scheduler-host is not for Kubernetes",
		"--image a -n 1 --check -- /p":                                     "kubectl apply --dry-run=server",
		"--image a -n 1 --interface eth0 -- /p":                            "--interface is not for Kubernetes",
		"--image a -n 1 --backups 1 -- /p":                                 "give -s 2 or more",
		"--image a -n 1 --imag b -- /p":                                    "did you mean --image?",
		"--image a -n 1 --env NOT_SET_ANYWHERE -- /p":                      "it is not set here",
		"--image a -n 1 --min-workers 1 -- /p":                             "--min-workers is for jobs that go on without a lost worker",
		"--image a -n 1 --start-timeout 0s -- /p":                          "--start-timeout is 0s",
		"--image a -n 1 --secret-file /nowhere/at/all/s -- /p":             "make the secret",
		"--image a -n 1 --name a --toleration =x:NoExecute -- /p":          "--toleration",
		"--image a -n 1 -- /p --checkpoint-dir /ckpt/run":                  "--checkpoint-dir /ckpt/run: no volume is mounted there, and the root file system of the pods is read-only; mount a volume that all pods share there, --pvc CLAIM:/ckpt/run",
		"--image a -n 1 --pvc c:/ckpt -- /p -checkpoint-dir=/ck":           "--checkpoint-dir /ck: no volume is mounted there",
		"--image a -n 1 --pvc c:/ckpt:ro -- /p --checkpoint-dir=/ckpt/run": "--checkpoint-dir /ckpt/run: the volume of --pvc there is read-only",
	} {
		words := strings.Fields(line)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "|", " ")
		}
		code, out, stderr := runK8s(t, secret, words...)
		if code == 0 || out != "" || !strings.Contains(stderr, want) {
			t.Errorf("launch k8s render %s: exit code %d, %d bytes, %q, want %q", line, code, len(out), stderr, want)
		}
	}
	if _, err := os.Stat(secret); err == nil {
		t.Error("a command line that is wrong made the secret")
	}
	var out, errs bytes.Buffer
	if code := launch([]string{"launch", "k8s", "scale"}, &out, &errs); code != command.ExitUsage || !strings.Contains(errs.String(), `there is no "scale"; there is render`) {
		t.Errorf("launch k8s scale: exit code %d, %q", code, errs.String())
	}
}
