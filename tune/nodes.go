package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// localName is what this machine is called as a node.
const localName = "local"

// nodeTimeout is how long a host may take to say what it has.
const nodeTimeout = 20 * time.Second

func firstCPUs(n int) []int {
	cpus := make([]int, n)
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

// A NodeLine is one line of a hosts file: HOST [slots=N] [gpus=N], where HOST is what ssh takes, with user and port. slots is how many
// processors trials may have of it; without it they may have all.
type nodeLine struct {
	host string
	cpus int // -1: all
	gpus int // -1: all
}

// lineEnds are those that editors write.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// parseNodes reads a hosts file. # begins a comment.
func parseNodes(file, text string) ([]nodeLine, error) {
	var nodes []nodeLine
	for i, line := range strings.Split(lineEnds.Replace(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(strings.TrimLeft(line, "\ufeff")) // some editors begin a file with this mark
		if len(fields) == 0 {
			continue
		}
		n := nodeLine{host: fields[0], cpus: -1, gpus: -1}
		if strings.HasPrefix(n.host, "-") || strings.ContainsAny(n.host, "'\"$`;&|<>()\\*?=") {
			return nil, fmt.Errorf("tune: %s line %d: %q is no host", file, i+1, n.host)
		}
		for _, f := range fields[1:] {
			name, value, _ := strings.Cut(f, "=")
			k, err := strconv.Atoi(value)
			if err != nil || k < 0 || k > 1<<16 || name != "slots" && name != "gpus" {
				return nil, fmt.Errorf("tune: %s line %d: %q is unknown; write host, slots=N, gpus=N", file, i+1, f)
			}
			if name == "slots" {
				n.cpus = k
			} else {
				n.gpus = k
			}
		}
		if slices.ContainsFunc(nodes, func(o nodeLine) bool { return o.host == n.host }) {
			return nil, fmt.Errorf("tune: %s line %d: host %s is there twice", file, i+1, n.host)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// localNode is this machine, with the processors this process may use and the GPUs that CUDA_VISIBLE_DEVICES leaves.
func localNode() slots.Node {
	n := slots.Node{Name: localName, CPUs: ownCPUs()}
	for i := range countGPUs("/proc/driver/nvidia/gpus") {
		n.GPUs = append(n.GPUs, strconv.Itoa(i))
	}
	if visible, ok := os.LookupEnv(gpuVariable); ok {
		n.GPUs = nil
		for id := range strings.SplitSeq(visible, ",") {
			if id = strings.TrimSpace(id); id == "" || id == "-1" {
				break // CUDA reads no further
			}
			n.GPUs = append(n.GPUs, id)
		}
	}
	return n
}

// countGPUs is how many GPUs the driver knows.
func countGPUs(dir string) int {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0 // no driver
	}
	return len(entries)
}

// ask lets a host say how many processors and GPUs it has.
func (j *Jobs) ask(ctx context.Context, n nodeLine) (slots.Node, error) {
	node := slots.Node{Name: n.host}
	if n.cpus < 0 || n.gpus < 0 {
		ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
		defer cancel()
		out, err := j.ssh(ctx, n.host, nil, "getconf _NPROCESSORS_ONLN; ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l")
		if err != nil {
			return node, fmt.Errorf("tune: ask %s what it has: %w", n.host, err)
		}
		var cpus, gpus int
		if _, err := fmt.Sscan(out, &cpus, &gpus); err != nil || cpus < 1 || cpus > 1<<16 || gpus < 0 || gpus > 1<<10 {
			return node, fmt.Errorf("tune: ask %s what it has: it says %.80q, want the numbers of processors and GPUs", n.host, out)
		}
		if n.cpus < 0 {
			n.cpus = cpus
		}
		if n.gpus < 0 {
			n.gpus = gpus
		}
	}
	node.CPUs = firstCPUs(n.cpus)
	for i := range n.gpus {
		node.GPUs = append(node.GPUs, strconv.Itoa(i))
	}
	return node, nil
}

// sshWords is the ssh client with its options.
func (j *Jobs) sshWords() []string {
	if words := strings.Fields(j.SSH); len(words) > 0 {
		return words
	}
	if words := strings.Fields(os.Getenv("PARAGON_SSH")); len(words) > 0 {
		return words
	}
	return []string{"ssh"}
}

// ssh runs a command on a host and returns what it prints.
func (j *Jobs) ssh(ctx context.Context, host string, in io.Reader, command string) (string, error) {
	words := append(j.sshWords(), "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
	name, port, ok := cutPort(host)
	if ok {
		words = append(words, "-p", port)
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], "--", name, command)...)
	var out, errs tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("ssh %s: %w%s", host, err, colon(strings.TrimSpace(errs.String())))
	}
	return out.String(), nil
}

// cutPort splits host:port; an IPv6 address needs brackets.
func cutPort(host string) (name, port string, ok bool) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.Count(host, ":") > 1 && !strings.HasSuffix(host[:i], "]") {
		return strings.Trim(host, "[]"), "", false
	}
	return strings.Trim(host[:i], "[]"), host[i+1:], true
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// Add adds a host, as a line of a hosts file, while a search runs. Trials may run there at once.
func (j *Jobs) Add(ctx context.Context, line string) error {
	nodes, err := parseNodes("host", line)
	if err != nil {
		return err
	}
	if len(nodes) != 1 {
		return fmt.Errorf("tune: add %q: want one host", line)
	}
	if err := j.prepare(ctx); err != nil {
		return err
	}
	node, err := j.ask(ctx, nodes[0])
	if err != nil {
		return err
	}
	if err := j.nodes.Add(node); err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	return nil
}

// Remove takes a host out: no more trials start there, and those that run come to their end.
func (j *Jobs) Remove(host string) error {
	if err := j.prepare(context.Background()); err != nil {
		return err
	}
	if err := j.nodes.Drain(host); err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	return nil
}

// Nodes is a table of the nodes: what each has and what of it is in use.
func (j *Jobs) Nodes() (metrics.Table, error) {
	t := metrics.Table{Columns: []string{"node", "CPUs", "in use", "GPUs", "in use", "state"}}
	if err := j.prepare(context.Background()); err != nil {
		return t, err
	}
	for _, u := range j.nodes.Usage() {
		state := "ready"
		if u.Leaving {
			state = "leaving"
		}
		t.Row(u.Name, u.CPUs, u.UsedCPUs, u.GPUs, u.UsedGPUs, state)
	}
	return t, nil
}

// Room is how many trials with these resources can run at once, at least 1.
func (j *Jobs) Room(given Resources) (int, error) {
	if err := j.prepare(context.Background()); err != nil {
		return 0, err
	}
	r := j.request(given)
	n := 0 // parts of trials, one a host
	for _, u := range j.nodes.Usage() {
		if u.Leaving {
			continue
		}
		fit := u.CPUs / r.CPUs
		if r.GPUs > 0 {
			fit = min(fit, u.GPUs/r.GPUs)
		}
		n += fit
	}
	return max(n/r.Hosts, 1), nil
}

// UploadFiles copies files to the folder on every host where trials run: Jobs.Folder, or the home folder. On this machine there is
// nothing to do.
func (j *Jobs) UploadFiles(ctx context.Context, files ...string) error {
	if err := j.prepare(ctx); err != nil {
		return err
	}
	var errs []error
	for _, u := range j.nodes.Usage() {
		if u.Name == localName {
			continue
		}
		for _, file := range files {
			if err := j.upload(ctx, u.Name, file); err != nil {
				errs = append(errs, fmt.Errorf("tune: upload %s: %w", file, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (j *Jobs) upload(ctx context.Context, host, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is no file")
	}
	folder := j.Folder
	if folder == "" {
		folder = "."
	}
	to := quote(folder + "/" + filepath.Base(file))
	// Under another name first: a copy that is cut off is not taken for the file.
	_, err = j.ssh(ctx, host, f, fmt.Sprintf("mkdir -p %s && cat > %s.part && chmod %o %s.part && mv %s.part %s", quote(folder), to, info.Mode().Perm(), to, to, to))
	return err
}

// quote makes a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// A tail keeps the last part of what is written to it.
type tail struct{ b []byte }

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }
